"""Graphs and trees as files and pictures: SVG, DOT, PNML, BPMN, PTML; without Beam."""
