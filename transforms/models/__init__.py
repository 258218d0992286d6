"""Graphs and trees as files and pictures: SVG, DOT, PNML, BPMN, PTML; without Beam."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
