# SPDX-License-Identifier: Apache-2.0
"""Special functions, and the parts of numbers."""

from __future__ import annotations

import torch
from recorder import INF, aten, case, integers, rand, special, uniform

CHEBYSHEV = [f"chebyshev_polynomial_{kind}" for kind in "tuvw"]
POLYNOMIALS = [
    *CHEBYSHEV,
    *(f"shifted_{name}" for name in CHEBYSHEV),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]
# Where each is finite.
UNARY = {
    "special_bessel_j0 special_bessel_j1 special_spherical_bessel_j0": (-20.0, 20.0),
    "special_bessel_y0 special_bessel_y1": (0.1, 20.0),
    "special_modified_bessel_i0 special_modified_bessel_i1": (-9.0, 9.0),
    "special_modified_bessel_k0 special_modified_bessel_k1": (0.1, 9.0),
    "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1": (0.1, 30.0),
    "special_airy_ai": (-12.0, 12.0),
    "i0 special_i0e special_i1 special_i1e": (-12.0, 12.0),
    "special_erfcx": (-3.0, 30.0),
    "special_ndtri": (0.01, 0.99),
}
NOT_EXACT = [
    f"special_{name}" for name in "bessel_j0 bessel_j1 bessel_y0 bessel_y1 airy_ai".split()
]
OF_NARROW_FLOATS = ["i0", "special_i0e", "special_i1", "special_i1e"]


def cases() -> None:
    degrees = torch.tensor([-1, 0, 1, 2, 3, 5, 7, 9, 12])
    for name in POLYNOMIALS:
        op = getattr(aten, f"special_{name}")
        case(op, uniform(9, low=-1.5, high=1.5), degrees, tolerance=1e-4)
        case(op, torch.tensor([-1.0, 0.0, 1.0, 2.0]).double(), torch.full((4, 1), 6.0).double())
        case(op, integers(9), degrees)
        case(op.x_scalar, 0.375, degrees.float(), tolerance=1e-4)
        case(op.n_scalar, uniform(3, 5, low=-2.0, high=2.0), 4, tolerance=1e-4)
    for names, (low, high) in UNARY.items():
        for name in names.split():
            op = getattr(aten, name)
            case(op, uniform(5, 7, low=low, high=high))
            # Eager's, and ours with it, are no nearer to the interpreter's.
            tolerance = 1e-5 if name in NOT_EXACT else 1e-11
            case(op, uniform(5, 7, low=low, high=high).double(), tolerance=tolerance)
            case(op, special())
            case(op, torch.full((3,), 1))
    for name in OF_NARROW_FLOATS:
        case(getattr(aten, name), uniform(3, 5, low=-6.0, high=6.0).bfloat16())
    _gamma()
    _parts()


def _gamma() -> None:
    positive = uniform(4, 6, low=0.25, high=6.0)
    for n in range(5):
        case(aten.polygamma, n, positive, tolerance=1e-4)
    case(aten.polygamma, 1, uniform(9, low=-3.0, high=1.0), tolerance=1e-4)
    case(aten.polygamma, 2, integers(5) + 7)
    case(aten.polygamma, 2, special())
    zeta = aten.special_zeta
    case(zeta, uniform(4, 1, low=1.1, high=9.0), uniform(6, low=0.2, high=9.0))
    case(
        zeta, torch.tensor([0.5, 1.0, 2.0, 2.5, INF]), torch.tensor([[1.0], [0.0], [-1.5], [-2.0]])
    )
    case(zeta.other_scalar, uniform(6, low=1.1, high=9.0), 1.5)
    case(zeta.self_scalar, 2, uniform(6, low=0.2, high=9.0).double(), tolerance=1e-11)
    limits = torch.tensor([0.0, 1.0, INF, -1.0])
    for op in (aten.igamma, aten.igammac):
        case(op, uniform(5, 1, low=0.1, high=5.0), uniform(7, low=0.1, high=8.0))
        case(op, uniform(9, low=90.0, high=300.0), uniform(9, low=90.0, high=300.0))
        case(op, uniform(5, low=0.1, high=5.0).double(), uniform(5).double(), tolerance=1e-11)
        case(op, limits.unsqueeze(1), limits)
        case(op, uniform(5, low=0.5, high=5.0).bfloat16(), uniform(5, low=0.5, high=5.0).bfloat16())


def _parts() -> None:
    for op in (aten.signbit, aten.angle):
        case(op, rand(3, 5))
        case(op, special())
        case(op, integers(6))
        case(op, integers(6) > 0)
        case(op, rand(6).half())
    case(aten.frexp.Tensor, rand(3, 5))
    case(aten.frexp.Tensor, torch.tensor([0.0, -0.0, 1.0, -8.0, 1e-40, 3e38]))
    case(aten.frexp.Tensor, rand(6).double())
    case(aten.frexp.Tensor, rand(6).half())
    case(aten.nextafter, rand(4, 1), rand(5))
    case(aten.nextafter, rand(4, 1).double(), rand(5).double())
    case(aten.nextafter, special().unsqueeze(1), special())
    case(aten.ldexp.Tensor, rand(3, 5), integers(5))
    case(aten.ldexp.Tensor, rand(3, 5).double(), rand(5).double())
    case(aten.ldexp.Tensor, integers(5), integers(5))
    for decimals in (0, 2, -1):
        case(aten.round.decimals, uniform(4, 6, low=-50.0, high=50.0), decimals=decimals)
        case(aten.round.decimals, uniform(6, low=-50.0, high=50.0).double(), decimals=decimals)
    case(aten.round.decimals, uniform(6, low=-50.0, high=50.0).half(), decimals=1)
    case(aten.round.decimals, rand(6), decimals=40)
