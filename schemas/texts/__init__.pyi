from .bounded_json import bounded_json as bounded_json
from .bounded_yaml import bounded_yaml as bounded_yaml
from .escapes import escaped as escaped
from .escapes import escaped_exactly as escaped_exactly
from .escapes import unescaped as unescaped
from .formulas import formulas as formulas
