// The library of ops: results are new tensors, each op is one kernel, written only in the language.
// Last layer over dsl; `#include <tileweave/tileweave.h>` brings it in.
#pragma once

#include "tileweave/ops/backward.h"
#include "tileweave/ops/batched_matmul.h"
#include "tileweave/ops/elementwise.h"
#include "tileweave/ops/layer_norm.h"
#include "tileweave/ops/matmul.h"
#include "tileweave/ops/reduce.h"
#include "tileweave/ops/rms_norm.h"
#include "tileweave/ops/softmax.h"
