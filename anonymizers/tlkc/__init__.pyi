from .k_anonymous_subtraces import KAnonymousSubtraces as KAnonymousSubtraces
from .k_anonymous_variants import KAnonymousVariants as KAnonymousVariants
from .method import Tlkc as Tlkc
from .params import KAnonymousParams as KAnonymousParams
from .params import KnowledgeParams as KnowledgeParams
from .params import TlkcParams as TlkcParams
