from .dfg_dot import write_dot as write_dot
from .dfg_svg import write_svg as write_svg
from .tree_models import write_bpmn as write_bpmn
from .tree_models import write_pnml as write_pnml
from .tree_models import write_ptml as write_ptml
from .tree_svg import write_tree_svg as write_tree_svg
