"""What the Amun paper prints of its 14 logs, to stand beside what comes out here.

Elkoumy, Pankova and Dumas, "Differentially Private Release of Event Logs for Process Mining",
Tables 6 to 9 and Figure 3. Each figure of Tables 6 to 8 is of one run. The file has figures alone,
as they are printed, also where they contradict each other; `-` is the paper's own for a run that
ended without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Table 9: log; traces; tasks; events; edges; variants; shortest and longest trace; shortest,
# longest and mean case duration.
_TABLE_9 = """
BPIC 2012; 13087; 23; 262200; 116; 4366; 3; 175; 1.85 s; 4.51 m; 1.23 w
BPIC 2013; 7554; 4; 65533; 16; 1511; 1; 123; inst.; 2.11 y; 1.73 w
BPIC 2014; 46616; 39; 466737; 497; 22632; 1; 178; 14 s; 1.07 y; 5.07 d
BPIC 2015; 1199; 398; 52217; 495; 1170; 2; 101; 8.56 h; 4.07 y; 3.15 m
BPIC 2017; 31509; 24; 1202267; 181; 3942; 10; 180; 3.35 m; 9.4 m; 3.13 w
BPIC 2018; 43809; 14; 2514266; 499; 28457; 24; 2973; 3.74 m; 2.77 y; 11.03 m
BPIC 2019; 251734; 42; 1595923; 498; 11973; 1; 990; 2 ms; 70.33 y; 2.35 m
BPIC 2020; 7065; 51; 86581; 500; 1478; 3; 90; 12.61 h; 3.26 y; 2.87 m
CCC 2019; 20; 29; 1394; 149; 20; 52; 118; 11 m; 1.01 d; 1.73 h
Credit Requirement; 10035; 8; 150525; 9; 1; 15; 15; 3.5 h; 5 d; 22 h
Hospital; 1143; 624; 150291; 903; 981; 1; 1814; inst.; 3.17 y; 1.06 y
Sepsis; 1050; 16; 15214; 115; 846; 3; 185; 2.03 m; 1 y; 4 w
Traffic fines; 150370; 11; 561470; 77; 231; 2; 20; 3 d; 12 y; 11 m
Unrineweginfectie; 1650; 10; 6973; 25; 50; 2; 35; 10.1 m; 2.32 y; 3.7 w
"""

# Table 6: log; g; Jaccard distance of Amun by sampling and by filtering, of PRIPEL and of SaCoFa.
_TABLE_6 = """
BPIC 2012; 0.2; 0.1618; 0.8681; 0.9995; 0.9931
BPIC 2012; 0.3; 0.114; 0.9005; 0.9995; 0.9926
BPIC 2012; 0.4; 0.0612; 0.9187; 0.9995; 0.9928
BPIC 2013; 0.2; 0.12; 0.12; 0.9966; 0.976
BPIC 2013; 0.3; 0.05; 0.17; 0.9966; 0.9757
BPIC 2013; 0.4; 0.02; 0.53; 0.9964; 0.977
BPIC 2014; 0.2; 0.147; 0.1581; -; 0.9997
BPIC 2014; 0.3; 0.095; 0.1051; 0.9999; 0.9997
BPIC 2014; 0.4; 0.05; 0.0949; 0.9999; 0.9998
BPIC 2015; 0.2; 0.2685; 0.3053; -; -
BPIC 2015; 0.3; 0.175; 0.4455; 0.9999; -
BPIC 2015; 0.4; 0.0996; 0.5396; 0.9997; -
BPIC 2017; 0.2; 0.0618; 0.6956; 0.9997; 0.9915
BPIC 2017; 0.3; 0.0276; 0.9214; -; 0.9916
BPIC 2017; 0.4; 0.013; 0.9216; 0.9997; 0.9933
BPIC 2018; 0.2; 0.2024; 0.6546; 0.9999; 0.9984
BPIC 2018; 0.3; 0.1283; 0.6913; -; 0.9989
BPIC 2018; 0.4; 0.0689; 0.8055; -; -
BPIC 2019; 0.2; 0.1903; 0.2385; -; 0.9957
BPIC 2019; 0.3; 0.1385; 0.1977; -; 0.996
BPIC 2019; 0.4; 0.0852; 0.2239; -; 0.9962
BPIC 2020; 0.2; 0.1129; 0.1319; 0.9948; 0.9572
BPIC 2020; 0.3; 0.0343; 0.0864; 0.9948; 0.9592
BPIC 2020; 0.4; 0.0222; 0.1432; 0.9948; 0.9835
CCC 2019; 0.2; 0.1564; 0.9498; -; -
CCC 2019; 0.3; 0.2798; 0.7403; -; -
CCC 2019; 0.4; 0; 0.8838; -; -
Credit Requirement; 0.2; 0; 0; 0; 0
Credit Requirement; 0.3; 0; 0; 0; 0
Credit Requirement; 0.4; 0; 0; 0; 0
Hospital; 0.2; 0.2849; 0.3269; 0.9999; -
Hospital; 0.3; 0.2177; 0.2203; 0.9998; -
Hospital; 0.4; 0.1295; 0.1579; 0.9998; -
Sepsis; 0.2; 0.1437; 0.406; 0.9962; 0.9485
Sepsis; 0.3; 0.1226; 0.7185; 0.9964; 0.9556
Sepsis; 0.4; 0.034; 0.882; 0.9969; 0.9598
Traffic fines; 0.2; 0.0185; 0.0275; -; 0.9757
Traffic fines; 0.3; 0.0042; 0.027; -; 0.9773
Traffic fines; 0.4; 0; 0.183; -; 0.9762
Unrineweginfectie; 0.2; 0.0728; 0.0852; 0.9875; 0.9023
Unrineweginfectie; 0.3; 0; 0.1123; 0.9938; 0.9006
Unrineweginfectie; 0.4; 0.0728; 0; 0.9875; 0.9029
"""

# Table 7: log; g; epsilon_t; distance of frequencies of Amun by sampling, filtering and
# oversampling, and of PRIPEL; distance of times, in months, of the same.
_TABLE_7 = """
BPIC 2012; 0.2; 1.48; 331.02; 653.36; 2301.62; 946.9; 40.3; 8.08; 192.13; 25.75
BPIC 2012; 0.3; 2; 212.64; 742.39; 1597.79; 966.99; 20.32; 13.54; 107.96; 26.7
BPIC 2012; 0.4; 2.47; 142.37; 785.87; 1275.43; 966.88; 12.68; 16.74; 72.56; 26.7
BPIC 2013; 0.2; 1.49; 1131.91; 1053.45; 7613.27; 3771.09; 778.18; 811.51; 3343.92; 197.41
BPIC 2013; 0.3; 1.99; 840.55; 258.45; 5417.64; 3792.55; 592.36; 307.26; 2055.23; 197.38
BPIC 2013; 0.4; 2.44; 558.45; 2450.45; 4296.73; 3775.82; 486.86; 75.13; 1751.96; 197.19
BPIC 2014; 0.2; 1.25; 429.6; 395.24; 1905.69; 531.42; 132.53; 130; 577.32; 10
BPIC 2014; 0.3; 1.74; 298.86; 281.43; 1333.95; -; 82.02; 76.37; 321.72; -
BPIC 2014; 0.4; 2.27; 208.55; 179.94; 1012.62; -; 47.12; 50.61; 178.08; -
BPIC 2015; 0.2; 0.42; 20.71; 18.74; 80.61; -; 5.68; 4.18; 22.47; -
BPIC 2015; 0.3; 0.69; 14.82; 7.93; 52.42; 10.71; 3.15; 2.28; 11.17; 0.8
BPIC 2015; 0.4; 0.99; 12.6; 2.79; 39.09; -; 2.46; 1.05; 8.87; -
BPIC 2017; 0.2; 1.81; 141.37; 1925.92; 1159.08; 2454.47; 117.56; 75.98; 268.08; 109.1
BPIC 2017; 0.3; 2.21; 78.6; 2667.91; 938.79; -; 95.07; 131.76; 206.76; -
BPIC 2017; 0.4; 2.66; 49.93; 2674.76; 938.79; -; 79.33; 133.77; 206.76; -
BPIC 2018; 0.2; 0.91; 3775.468; 659.01; 17668.46; -; 2176.17; 179.39; 3206.75; -
BPIC 2018; 0.3; 1.31; 2922.8; 1752.72; 12063.81; -; 1319.69; 325.14; 2201.39; -
BPIC 2018; 0.4; 1.72; 2372.08; 2812.65; 9055.04; -; 885.81; 517.59; 1647.15; -
BPIC 2019; 0.2; 2.96; 946.99; 811.8; 4509.08; -; 524.18; 608.02; 1513.92; -
BPIC 2019; 0.3; 3.51; 743.96; 572.71; 3094.05; -; 491.84; 498.59; 1054.23; -
BPIC 2019; 0.4; 4; 612.48; 399.36; 2376.21; -; 500.57; 360.54; 751.67; -
BPIC 2020; 0.2; 2.73; 18.97; 18.69; 138.05; 98.1; 65.23; 69.04; 180.5; 23.94
BPIC 2020; 0.3; 3.27; 14.88; 10.42; 99.76; -; 44.46; 40.01; 109.9; -
BPIC 2020; 0.4; 3.75; 10.55; 2.24; 76.61; -; 41.7; 35.78; 82.67; -
CCC 2019; 0.2; 0.23; 12.78; 3.7; 30.81; -; 0; 0; 0; -
CCC 2019; 0.3; 0.54; 4.55; 2.23; 25.77; -; 0; 0; 0; -
CCC 2019; 0.4; 0.85; 5.54; 3.21; 16.64; -; 0; 0; 0; -
Credit Requirement; 0.2; 1.39; 0; 2; 4; 0; 233.08; 238.79; 186.94; 0
Credit Requirement; 0.3; 1.8; 0; 0; 3; 0; 203.94; 182.39; 220.17; 0
Credit Requirement; 0.4; 2.03; 0; 2; 2; 0; 201.81; 231.37; 180.77; 0
Hospital; 0.2; 0.21; 81.4; 75.74; 406.45; -; 10.3; 11.33; 55.44; -
Hospital; 0.3; 0.41; 57.91; 61.96; 264.09; -; 7.86; 7.42; 31.71; -
Hospital; 0.4; 0.6; 58.68; 63.93; 210.4; -; 6.07; 6.01; 20.7; -
Sepsis; 0.2; 1.31; 56.84; 32.2; 427.64; 118.02; 8.97; 4.37; 61.5; 8.68
Sepsis; 0.3; 1.83; 28.46; 67.97; 286.23; 118.63; 6.35; 3.6; 32.93; 8.64
Sepsis; 0.4; 2.37; 43.38; 101.64; 232.5; 118.71; 4.26; 6.48; 26.61; 8.64
Traffic fines; 0.2; 4.5; 1.64; 0.9; 33.5; -; 8250.42; 7253.29; 8627.86; -
Traffic fines; 0.3; 5.26; 0.61; 8.01; 25.51; -; 7767.32; 6720.8; 7081.06; -
Traffic fines; 0.4; 5.28; 0; 2951.5; 21; -; 7182.96; 12788.57; 7419.02; -
Unrineweginfectie; 0.2; 2.87; 6.53; 5.53; 66; 290; 44.96; 39.34; 184.68; 94.74
Unrineweginfectie; 0.3; 3.41; 0; 2.87; 53.67; 290.47; 28.12; 33.27; 103.67; 94.73
Unrineweginfectie; 0.4; 3.84; 1.47; 2.53; 47; 290.47; 21.89; 26.35; 90.93; 94.73
"""

# Table 8: log; minutes at g = 0.2 of Amun by sampling, filtering and oversampling, and of PRIPEL.
_TABLE_8 = """
BPIC 2012; 7.38; 4.44; 12.5; 24.35
BPIC 2013; 1.09; 1.11; 3.9; 4.2
BPIC 2014; 43.83; 44.57; 101.4; -
BPIC 2015; 4.45; 4.38; 8.4; -
BPIC 2017; 10.8; 6.88; 17.4; 1.46
BPIC 2018; 321.59; 128.32; 542.5; 226
BPIC 2019; 52.73; 96.89; 87.5; -
BPIC 2020; 2.52; 2.64; 4.1; 3.18
CCC 2019; 0.09; 0.04; 0.1; -
Credit Requirement; 1.35; 1.21; 1.2; 14.5
Hospital; 10.65; 11.27; 34.1; -
Sepsis; 1; 0.87; 1.9; 0.05
Traffic fines; 11.35; 9.71; 8.2; -
Unrineweginfectie; 0.16; 0.14; 0.2; 0.02
"""

# Figure 3 and the text beside it: log; variants that were lost at g = 0.2 by sampling and by
# filtering, and by PRIPEL.
_FIGURE_3 = """
Sepsis; 37; 317; 839
Unrineweginfectie; 1; 2; 34
"""

# Columns of the tables, as the experiment calls its methods.
SAMPLING, FILTERING, OVERSAMPLING = "Amun, sampling", "Amun, filtering", "Amun, oversampling"
PRIPEL, SACOFA = "PRIPEL", "SaCoFa"
_OF_AMUN = (SAMPLING, FILTERING, OVERSAMPLING, PRIPEL)
_COLUMNS = {
    "jaccard": (SAMPLING, FILTERING, PRIPEL, SACOFA),
    "frequencies": _OF_AMUN,
    "times": _OF_AMUN,
    "seconds": _OF_AMUN,
    "lost": (SAMPLING, FILTERING, PRIPEL),
}


@dataclass(frozen=True)
class Described:
    """A row of Table 9.

    Attributes:
        name: Of the log.
        n_cases: Traces.
        n_activities: Tasks.
        n_events: Events.
        n_edges: Edges.
        n_variants: Case variants.
        lengths: Of the shortest and of the longest trace.
        durations: Of the shortest and of the longest case, and their mean, as printed.
    """

    name: str
    n_cases: int
    n_activities: int
    n_events: int
    n_edges: int
    n_variants: int
    lengths: tuple[int, int]
    durations: tuple[str, str, str]


def described(n_cases: int, n_events: int, n_variants: int) -> Described | None:
    """Returns the log of the paper that has these numbers, or None: it has none that does."""
    for one in TABLE_9:
        if (one.n_cases, one.n_events, one.n_variants) == (n_cases, n_events, n_variants):
            return one
    return None


def printed(table: str, log: str, g: str, method: str) -> float | None:
    """Returns a figure of the paper, or None where it has none.

    Args:
        table: `jaccard`, `frequencies`, `times` (months), `seconds` or `lost`.
        log: A name of Table 9.
        g: The guessing advantage, as text.
        method: One of those above.
    """
    return _FIGURES.get((table, log, _advantage(g), method))


def epsilon_t(log: str, g: str) -> float | None:
    """Returns the mean epsilon of the times of Table 7, or None where it has none."""
    return _FIGURES.get(("epsilon_t", log, _advantage(g), ""))


def _advantage(g: str) -> str:
    return f"{float(g):g}"


def _rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(";")] for line in text.strip().splitlines()]


def _table_9() -> tuple[Described, ...]:
    logs = []
    for name, *cells in _rows(_TABLE_9):
        cases, tasks, events, edges, variants, shortest, longest = map(int, cells[:7])
        low, high, mean = cells[7:]
        logs.append(
            Described(name, cases, tasks, events, edges, variants, (shortest, longest),
                      (low, high, mean))
        )  # fmt: skip
    return tuple(logs)


def _figures() -> Mapping[tuple[str, str, str, str], float]:
    figures: dict[tuple[str, str, str, str], float] = {}

    def add(table: str, log: str, g: str, cells: list[str], factor: float = 1) -> None:
        for method, cell in zip(_COLUMNS[table], cells, strict=True):
            if cell != "-":
                figures[table, log, g, method] = float(cell) * factor

    for log, g, *cells in _rows(_TABLE_6):
        add("jaccard", log, g, cells)
    for log, g, epsilon, *cells in _rows(_TABLE_7):
        figures["epsilon_t", log, g, ""] = float(epsilon)
        add("frequencies", log, g, cells[:4])
        add("times", log, g, cells[4:])
    for log, *cells in _rows(_TABLE_8):
        add("seconds", log, "0.2", cells, 60)
    for log, *cells in _rows(_FIGURE_3):
        add("lost", log, "0.2", cells)
    return figures


TABLE_9 = _table_9()
_FIGURES = _figures()
