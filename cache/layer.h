// A read-only layer: a pack, or a directory laid out as a root.
// Opened by the front for each part of TILEWEAVE_CACHE_LAYERS.
#pragma once

#include <memory>

#include "tileweave/cache/report.h"
#include "tileweave/cache/settings.h"
#include "tileweave/cache/store.h"

namespace tileweave::cache {

// Null where the layer cannot be used; the reporter has been told why.
std::unique_ptr<Store> open_layer(const LayerSetting& setting, Reporter& reporter);

}  // namespace tileweave::cache
