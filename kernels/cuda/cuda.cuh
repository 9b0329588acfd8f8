// Stands for the device prelude until that is there: enough for the JIT's own tests.
#pragma once

using int64_t = long long;
