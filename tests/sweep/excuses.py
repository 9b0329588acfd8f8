# SPDX-License-Identifier: Apache-2.0
"""What the sweep excuses, each with its reason: a small table, which only shrinks.

What a run can prove by itself needs no line here: eager that differs from itself, and what
aot_eager cannot run either or runs with the same results.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Operators whose results hold what the memory held before.
_UNDEFINED = re.compile(
    r"^(empty|empty_like|empty_permuted|empty_strided|new_empty|new_empty_strided)$"
)


@dataclass(frozen=True)
class Excuse:
    """Cases whose key, and messages of them, in which the expressions are found."""

    case: str
    message: str
    reason: str


KNOWN: tuple[Excuse, ...] = (
    Excuse(
        r"^nn\.functional\.pixel_unshuffle\|.*\|empty\|",
        r"shape \[0, \d+, \d+, \d+\], eager has \[0, ",
        "eager gives a batch of nothing back as it came; its own fake implementation says the shape"
        " that other batches get, by which every backend compiles",
    ),
    Excuse(
        r"^special\.(chebyshev_polynomial_[uvw]|shifted_chebyshev_polynomial_[tuvw]"
        r"|laguerre_polynomial_l|legendre_polynomial_p)\|.*\|special\|.*\|cpu",
        r"too far off: at \[.*\] nan, eager 1\.0",
        "the polynomial of NaN: eager on the CPU gives a variable that it never set",
    ),
    Excuse(
        r"^igammac?\|float64\|special\|",
        r"too far off: at \[.*\] [01]\.0, eager nan, float64 nan",
        "next to the largest number eager's logarithm of the density is infinity minus infinity",
    ),
    Excuse(
        r"^Numpy(Cube|MulScalar)CustomOp\|",
        r"gave \w+\[.*\] strides .* where \w+\[",
        "the operator's implementation for fake tensors says another type than it gives",
    ),
    Excuse(
        r"^Numpy\w+CustomOp\|",
        r"strides \[[\d, ]+\], eager has \[",
        "the operator's implementation for fake tensors says other strides than it gives",
    ),
    Excuse(
        r"^(_?native_batch_norm(_legit)?|_batch_norm_with_update)\|.*\|special\|",
        r"result [1-4]: .* too far off: at \[\d+\] nan, eager -?inf",
        "the mean of a channel with an infinity, by Welford's method: infinity minus infinity, as"
        " in torch.var_mean, unless the infinity comes last; eager's batch norm adds up on the CPU,"
        " and on a GPU meets elements in another order. The channel's results are NaN either way",
    ),
    Excuse(
        r"^(_?native_batch_norm(_legit)?|nn\.functional\.batch_norm)\|float64\|special\|gradient\|",
        r"gradients: .* too far off: at \[[\d, ]+\] nan, eager -?0\.0, float64 -?0\.0",
        "a channel with the largest number, whose distance to the mean times the gradient, 2/3 by"
        " 3/2, is that number again or infinity, by how the mean was rounded",
    ),
    Excuse(
        r"^_?native_batch_norm(_legit)?\|.*\|empty\|gradient\|.*\|cpu",
        r"ended with -8 while at eager",
        "eager's gradient of no elements divides by their number, which ends the process",
    ),
    Excuse(
        r"^lcm\|int(32|64)\|special\|.*\|cpu",
        r"ended with -8 while at eager",
        "the least integer over minus one, which ends the process",
    ),
    Excuse(
        r"^_native_batch_norm_legit\|.*\|empty\|.*\|cpu",
        r"a channel vector has sizes \[0\] where \[1\] is needed",
        "weights of no channel for a channel without elements: eager looks at neither",
    ),
    Excuse(
        r"^as_strided_scatter\|.*\|gradient\|",
        r"eager raises RuntimeError: .*INTERNAL ASSERT FAILED.* only supported for contiguous",
        "eager's gradient fails a check of its own where the input has gaps",
    ),
    Excuse(
        r"^nn\.functional\.nll_loss\|.*\|gradient\|",
        r"eager raises RuntimeError: grad_input must be contiguous; here nothing is raised",
        "eager makes a gradient that lies as the input, and its kernel takes none that does",
    ),
    Excuse(
        r"^nn\.functional\.channel_shuffle\|.*\|cuda",
        r"eager raises RuntimeError: view size is not compatible .*; here nothing is raised",
        "eager on a GPU views what it would have to copy; on the CPU it takes all layouts",
    ),
    Excuse(
        r"^atan2\|float16\|special\|gradient\|",
        r"too far off: at \[.*\] -?0\.0, eager nan, float64 -?\d",
        "a sum of squares that both gradients read is stored in float16 and overflows: one over it"
        " is 0. So it is in eager, which multiplies it by another infinity",
    ),
    Excuse(
        r"^hypot\|float16\|special\|gradient\|",
        r"too far off: at \[.*\] -?(0\.0|2\.5), eager nan, float64 -?\d",
        "2.5 times the largest number over an infinite hypotenuse: eager stores the product in"
        " float16, where it is infinity, too; in float32 it is a number, and over infinity 0",
    ),
    Excuse(
        r"^nn\.functional\.multilabel_margin_loss\|.*\|scalar\|.*\|cuda",
        r"^an assertion on the device at sample \d",
        "a target beyond the only class: eager on a GPU reads beside its memory, on the CPU it"
        " raises",
    ),
    Excuse(
        r"^special\.airy_ai\|int32\|special\|",
        r"too far off: at \[.*\] -?[\d.e-]+, eager -?[\d.e-]+, float64 -?0\.00\d+",
        "a wave at minus two thousand millions, of whose phase float32 has no digit",
    ),
    Excuse(
        r"^cumprod\|b?float(16|32|64)\|special\|gradient\|.*\|cuda",
        r"^gradients: \d+ of 125 are too far off: at "
        r".* (nan, eager 0\.0, float64 0\.0|[-\d.e+]+, eager nan, float64 nan)$",
        "torch 2.11 captures another formula of the gradient than eager takes: aot_eager differs"
        " from eager at the same elements",
    ),
    Excuse(
        r"^(linalg\.qr|qr|geqrf)\|.*\|special\|.*\|cuda",
        r"^hung: no answer in time while at eager",
        "the library looks without end at a matrix whose numbers are not finite",
    ),
    Excuse(
        r"^resize_\|.*\|empty\|",
        r"too far off: at|differ: at",
        "elements that nobody set",
    ),
    Excuse(
        r"^nn\.functional\.(max_unpool.*|mish|multi(label)?_margin_loss)\|.*rejected\|",
        r'eager raises NotImplementedError: "(max_unpool|mish|multi).*" not .*here nothing is',
        "torch's decomposition takes types that eager's kernel does not have",
    ),
    Excuse(
        r"^(masked\.(std|var)|nn\.functional\.(tanhshrink|poisson_nll_loss))\|bool\|rejected\|",
        r"eager raises RuntimeError: Subtraction, the `-` .*, with a bool tensor.*here nothing is",
        "torch's implementation of a subtraction for fake tensors takes a truth value and a number",
    ),
    Excuse(
        r"^index_reduce\.prod\|.*\|expanded\|.*\|cpu",
        r"eager raises RuntimeError: iter\.ninputs\(\) == traits::arity INTERNAL ASSERT FAILED",
        "a product into expanded rows: eager's kernel fails a check of its own",
    ),
    Excuse(
        r"^index_reduce\.prod\|float16\|.*\|gradient\|",
        r"too far off: at \[.*\] -?\d[\d.e+]*, eager -?inf, float64 -?\d",
        "eager's gradient overflows on its way to a number that float16 has",
    ),
    Excuse(
        r"^reciprocal\|float16\|reference\|gradient\|.*\|cuda",
        r"^gradients: 1 of \d+ are too far off: at \[\d+, \d+\] 56352\.0, eager inf, float64 56403",
        "the square of a reciprocal in float16, which eager's overflows: here by two roundings of"
        " the reciprocal, which forward saves in float16",
    ),
    Excuse(
        r"^(__rmod__|div\.(trunc|floor)_rounding|floor_divide|fmod)\|u?int\d+\|special\|.*\|cuda"
        r"|^__rmod__\|u?int\d+\|.*\|cuda",
        r"differ: at \[.*\] -?\d+, eager (-1|-2|255|4294967295)$",
        "a whole number divided by 0: CUDA gives what its division leaves; eager on the CPU raises",
    ),
    Excuse(
        r"^remainder\|(uint8|int64)\|special\|.*\|cuda",
        r"differ: at \[.*\] (0|254|9223372036854775806), eager (-1|255|4294967295)$",
        "the same",
    ),
    Excuse(
        r"^((linalg\.)?cross|cumulative_trapezoid|nn\.functional\.poisson_nll_loss)\|float64\|special\|"
        r"|^(fmod|mul|__rmul__)\|float64\|special\|gradient\|.*\|cuda"
        r"|^__rdiv__\|float64\|special\|gradient\||^cumprod\|float64\|special\|gradient\|.*\|cpu",
        r"too far off: at \[.*\] -?inf, eager (nan|-?inf), float64 (nan|-?inf)",
        "products of the largest number, which fused with their sum do not overflow one by one",
    ),
    Excuse(
        r"^gradient\|float64\|special\|",
        r"^result 0: \d of \d+ are too far off: at \[.*\] -?inf, eager nan, float64 nan$",
        "the same: 1.5 times the largest number, less twice that",
    ),
    Excuse(
        r"^nn\.functional\.cosine_similarity\|b?float16\|.*\|gradient\|",
        r"^gradients: (result [01]: )?[125] of \d+ are too far off: at \[[\d, ]+\]"
        r" -?(0\.00\d+|\d\.\d+e-05), eager -?(0\.0|0\.00\d+), float64 -?(0\.0|\d\.\d+e-1\d)$",
        "the gradient of a row of one element, of one that is not 0, or of equal ones, which is 0:"
        " terms that cancel, one of them rounded to 16 bits between two kernels",
    ),
    Excuse(
        r"^pow\|float32\|.*\|gradient\|.*\|cuda",
        r"1 of 1 are too far off: at \[\] -79546\.8\d+, eager -79547\.0, float64 -79547\.03",
        "the gradient of one exponent: fifty terms of both signs, added in another order",
    ),
    Excuse(
        r"^_unsafe_masked_index_put_accumulate\|b?float\d\d\|special\|",
        r"too far off: at \[.*\] (nan, eager -?inf, float64 -?inf|-?inf, eager nan, float64 nan)",
        "the largest number twice and an infinity of the other sign: NaN where the numbers come"
        " first, and no order is said",
    ),
    Excuse(
        r"^rsqrt\|float16\|reference\|gradient\|.*\|cuda",
        r"too far off: at \[.*\] -?\d+\.\d, eager -?inf, float64 -?\d",
        "eager's cube of the result overflows in float16 on its way to a number that it has",
    ),
    Excuse(
        r"^linalg\.vector_norm\|float16\|special\|gradient\|.*\|cuda",
        r"^gradients: \d of \d+ are too far off: at \[.*\] -?0\.0, eager nan, float64 -?0\.\d",
        "the norm of what holds the largest number is infinity in float16: a number over it is 0,"
        " and in eager, which multiplies by it, NaN",
    ),
    Excuse(
        r"^nn\.functional\.one_hot\|int64\|special\|.*\|cuda",
        r"^eager fails an assertion on the device; here nothing fails",
        "a class that is none: torch captures comparisons with all classes, which take any number",
    ),
    Excuse(
        r"^signal\.windows\.kaiser\|.*\|reference\|.*\|cpu",
        r"too far off: at \[\d+\] 0\.0, eager nan",
        "a number of float32 over infinity: eager's i0 is infinity from 88.73 on, where its value"
        " has a number in float32 up to 91.9, and infinity over infinity is NaN",
    ),
    Excuse(
        r"^(nn\.functional\.)?(celu|elu|hardswish)\|.*\|gradient\|.*\|cpu",
        r"too far off: at \[[\d, ]+\] [\d.e+-]+, eager nan",
        "the gradient at NaN: eager's vectors give NaN, and what is left behind them the gradient"
        " itself, so that it depends on how wide the machine's vectors are",
    ),
    Excuse(
        r"^linalg\.eig(vals)?\|.*\|special\|.*\|cpu",
        r"^(hung: no answer in time|ended with -11) while at eager",
        "LAPACK looks without end for eigenvalues of a matrix whose numbers are not finite, or ends"
        " the process",
    ),
    Excuse(
        r"^cond\.simple\|float(32|64)\|special\|forward\|",
        r"^8 of 8 are too far off: at \[1, 0, 0\]",
        "a branch by how large a sum is that has the largest number and the least in it: it is what"
        " was added behind the second of them, in whatever order",
    ),
    Excuse(
        r"^logit\|.*\|special\|gradient\|.*\|cpu",
        r"too far off: at \[.*\] 0\.0, eager nan, float64 nan",
        "the gradient of NaN between bounds: eager on the CPU has 0 in whole vectors, as torch's"
        " decomposition everywhere, and NaN in what is left of a row",
    ),
    Excuse(
        r"^nn\.functional\.hardtanh\|float32\|special\|gradient\|.*\|cpu",
        r"too far off: at \[(2, 2|14)\] -?2\.5, eager 0\.0, float64 0\.0",
        "the gradient at NaN, which is at these places: eager's vectors give 0, and what is left"
        " behind them the gradient itself",
    ),
    Excuse(
        r"^(native_|nn\.functional\.)(group|layer)_norm\|.*\|special\|",
        r"result 1: .* too far off: at \[[\d, ]+\] -?inf, eager nan",
        "the mean of a row with an infinity: eager's Welford makes infinity minus infinity of it,"
        " here it is the sum's; the row's results are NaN either way",
    ),
    Excuse(
        r"^(native_|nn\.functional\.)(group|layer|rms)_norm\|b?float(16|32)\|special\|",
        r"too far off: at \[[\d, ]+\] (-0\.57(349383\d*|421875)|-?0\.0), eager nan, float64 -?\d",
        "the variance of a row overflows: here its inverse is 0 and the result the bias, or 0, in"
        " eager NaN",
    ),
    Excuse(
        r"^(native_|nn\.functional\.)group_norm\|b?float16\|special\|"
        r"|^nn\.functional\.instance_norm\|.*\|special\|",
        r"^(result 0: )?\d+ of \d+ are too far off: at \[[\d, ]+\] -?inf, eager nan, float64 nan",
        "a weight and a bias of infinity: eager folds the row's mean into the bias, which makes"
        " infinity minus infinity of them",
    ),
    Excuse(
        r"^nn\.functional\.instance_norm\|.*\|special\|",
        r"^\d+ of (24|125) are too far off: at \[[\d, ]+\]"
        r" (nan, eager (0\.0, float64 0\.0|-8\.5, float64 -8\.5)"
        r"|-8\.5, eager nan, float64 -5\.65\d*)$",
        "an image of the largest number and the least: their distance, of which Welford's method"
        " makes a mean, is infinity, and NaN next; or not, by the order in which they are met",
    ),
    Excuse(
        r"^native_layer_norm\|float64\|special\|gradient\|",
        r"gradients: .* too far off: at \[[\d, ]+\] -?0\.0, eager nan, float64 nan",
        "the same in float64, which is the most exact there is",
    ),
    Excuse(
        r"^(std|var)_mean\|.*\|special\|",
        r"result 1: .* too far off: at \[[\d, ]+\] nan, eager -?inf, float64 -?inf",
        "the mean of an infinity, by Welford's method: infinity minus infinity, unless the infinity"
        " comes last, where eager and here elements come in another order",
    ),
    Excuse(
        r"^polygamma\.polygamma_n_\d\|int64\|special\|.*\|cpu",
        r"too far off: at \[[\d, ]*\] 10\.05099\d*, eager 10\.14364\d*, float64 10\.14364",
        "trigamma of the least integer, a pole: what sin(pi x) leaves of its rounding, in eager's"
        " float32; here as eager has it of float64",
    ),
    Excuse(
        r"^(special\.polygamma\.special_|polygamma\.)polygamma_n_\d\|int32\|special\|",
        r"too far off: at \[[\d, ]*\] 142698140925952\.0, eager 20\.946281\d*, float64 2846535",
        "the same of the least integer of 32 bits, which no two arithmetics agree on",
    ),
    Excuse(
        r"^masked\.cumprod\|float64\|special\|.*\|cuda",
        r"too far off: at \[[\d, ]*\] -?\d+\.\d+, eager -?inf, float64 -?inf",
        "a product of the largest and of the least numbers, which overflows where it goes one by"
        " one and not in the parts of a scan",
    ),
    Excuse(
        r"^nn\.functional\.max_unpool\dd\|.*\|special\|.*\|cuda",
        r"^\d of \d+ are too far off: at \[[\d, ]+\] (-?inf|6\.10\d*e-05|1\.175\d*e-38), eager"
        r" (nan|-?0\.0|1\.797693134862315\d*e\+308)",
        "places that several elements go to: which comes last is not said, nor the same twice",
    ),
    Excuse(
        r"^index_copy\|int64\|expanded\|forward\|.*\|cuda",
        r"^\d of 25 differ: at \[\d, \d\] -?\d, eager -?\d$",
        "the same of rows: the index is one number, expanded",
    ),
    Excuse(
        r"^normal\|.*\|cuda",
        r"eager raises RuntimeError: normal expects all elements of std >= 0\.0; here nothing",
        "eager waits for the GPU to look at all deviations; nothing is looked at instead",
    ),
    Excuse(
        r"^(torch\.ops\.aten\._efficient_attention_forward"
        r"|nn\.functional\.scaled_dot_product_attention)\|float32\|offset\|.*\|cuda",
        r"eager fails .* on the device; here: (AcceleratorError: CUDA error: misaligned address"
        r"|BackendFailedError: TypeError: meta__efficient_attention_backward\(\) got multiple)",
        "torch's kernel takes no operand that begins between two vectors, in eager as here; for"
        " the gradient torch 2.11 has no fake implementation that can be called",
    ),
    Excuse(
        r"^native_group_norm\|.*\|(expanded|noncontiguous)\|.*\|cpu",
        r"eager raises RuntimeError: Expected X\.is_contiguous\(memory_format\)",
        "eager's kernel takes no such layout",
    ),
    Excuse(
        r"^_batch_norm_with_update\|.*\|cuda",
        r"eager raises RuntimeError: Expected (contiguous tensor.*cudnn_batch_norm"
        r"|input->is_contiguous\(input->suggest_memory_format\(\)\)).*here nothing is raised",
        "cuDNN takes images and parameters of few layouts; the kernels here take them all",
    ),
    Excuse(
        r"^flex_attention(_backward)?\.simple\|.*\|empty\|gradient\|.*\|cuda",
        r"eager raises RuntimeError: cannot reshape tensor of 0 elements.*here nothing is raised",
        "eager's gradient of an empty batch leaves a size to be found from no elements",
    ),
    Excuse(
        r"^repeat_interleave\|.*\|empty\|gradient\|",
        r"shape '\[6, 1\]' is invalid for input of size 0",
        "nothing, repeated so as to give six: torch takes the six for the gradient's size, and what"
        " it compiles has none of them, whatever the backend",
    ),
    Excuse(
        r"^logaddexp\|complex\d+\|(special|reference)\|gradient\||^gradient\|complex\d+\|special\|",
        r"too far off: at \[.*\] .*, eager \(nan\+nanj\), float64 \(nan\+nanj\)",
        "a difference of infinities: eager multiplies complex numbers by its factor 1+0j first",
    ),
    Excuse(
        r"^special\.bessel_j1\|int32\|special\|",
        r"too far off: at \[\d+\] -1\.472081\d*e-05, eager",
        "of the largest whole number, which in float32 is another one, by a cosine in float32",
    ),
    Excuse(
        r"^torch\.ops\.aten\._flash_attention_forward\|.*\|cuda",
        r"result 2: [12] of 2 differ",
        "the state of dropout's random numbers, which eager has not set where there is no dropout",
    ),
    Excuse(
        r"^special\.(shifted_)?(chebyshev|hermite|laguerre|legendre)_polynomial_\w+\|.*\|special\|",
        r"^hung: no answer in time while at eager",
        "a polynomial of the degree of the largest number, by which eager goes one by one",
    ),
    Excuse(
        r"^logit\|.*\|special\|gradient\|.*\|cpu",
        r"too far off: at \[.*\] -?inf, eager -?inf, float64 -?inf",
        "the gradient at -0: eager on the CPU divides by -0 in whole vectors, and multiplies by"
        " infinity in what is left of a row",
    ),
    Excuse(
        case=r"\|gradient\|",
        message=r"eager raises RuntimeError: Function \w+ returned an invalid gradient",
        reason="torch's own formula of the gradient gives one of another shape",
    ),
)


def undefined(entry: str) -> bool:
    """Whether only sizes, dtypes and strides of an entry's results mean something."""
    return _UNDEFINED.match(entry) is not None


def reason(case: str, message: str) -> str:
    """Why a failure is excused; empty when it is not."""
    for known in KNOWN:
        if re.search(known.case, case) and re.search(known.message, message):
            return known.reason
    return ""
