// Opens layers: belonging to root or to the user, or pinned by a digest.
// See layer.h.
#include "tileweave/cache/layer.h"

#include "tileweave/cache/disk.h"

namespace tileweave::cache {

std::unique_ptr<Store> open_layer(const LayerSetting& setting, Reporter& reporter) {
  if (!setting.sha256.empty()) {
    reporter.warn_once(Warning::layer, setting.path + ": only a pack can be pinned by a digest; layer ignored");
    return nullptr;
  }
  DiskOptions options;
  options.root = setting.path;
  options.writable = false;
  options.trust.or_root = true;
  auto store = DiskStore::open(options, reporter);
  if (!store) reporter.warn_once(Warning::layer, setting.path + ": no such layer; it is ignored");
  return store;
}

}  // namespace tileweave::cache
