// Everything a user needs: #include <tileweave/tileweave.h>, namespace tw = tileweave.
// The language (kernels, tiles, fusion groups, tensor expressions), the host side, and the library of ops.
#pragma once

#if defined(TILEWEAVE_FUSE)  // the decorator reads a file: decorated functions need no more, and it reads every time
#include "tileweave/dsl/math.h"
#else
#include "tileweave/dsl/atomic.h"
#include "tileweave/dsl/contract.h"
#include "tileweave/dsl/control.h"
#include "tileweave/dsl/debug.h"
#include "tileweave/dsl/decorated.h"
#include "tileweave/dsl/deploy.h"
#include "tileweave/dsl/dot.h"
#include "tileweave/dsl/external.h"
#include "tileweave/dsl/fusion_group.h"
#include "tileweave/dsl/gradient.h"
#include "tileweave/dsl/grid.h"
#include "tileweave/dsl/indexed.h"
#include "tileweave/dsl/kernel.h"
#include "tileweave/dsl/math.h"
#include "tileweave/dsl/memory.h"
#include "tileweave/dsl/random.h"
#include "tileweave/dsl/rearrange.h"
#include "tileweave/dsl/reduce.h"
#include "tileweave/dsl/rounding.h"
#include "tileweave/dsl/scan.h"
#include "tileweave/dsl/shape.h"
#include "tileweave/dsl/sort.h"
#include "tileweave/dsl/tensor.h"
#include "tileweave/dsl/tensor_expr.h"
#include "tileweave/dsl/value_and_grad.h"
#include "tileweave/jit/base/error.h"
#include "tileweave/jit/runtime/device.h"
#include "tileweave/jit/runtime/dlpack.h"
#include "tileweave/jit/runtime/stream.h"
#include "tileweave/ops/ops.h"
#endif
