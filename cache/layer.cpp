// Opens layers: belonging to root or to the user, or pinned by a digest.
// See layer.h.
#include "tileweave/cache/layer.h"

#include <sys/stat.h>

#include "tileweave/cache/disk.h"
#include "tileweave/cache/pack.h"

namespace tileweave::cache {

namespace {

std::unique_ptr<Store> open_directory_layer(const LayerSetting& setting, Reporter& reporter) {
  if (!setting.sha256.empty()) {
    reporter.warn_once(Warning::layer, setting.path + ": only a pack can be pinned by a digest; layer ignored");
    return nullptr;
  }
  DiskOptions options;
  options.root = setting.path;
  options.writable = false;
  options.trust.or_root = true;
  auto store = DiskStore::open(options, reporter);
  if (!store) reporter.warn_once(Warning::layer, setting.path + ": no cache is there; layer ignored");
  return store;
}

}  // namespace

std::unique_ptr<Store> open_layer(const LayerSetting& setting, Reporter& reporter) {
  struct stat info = {};
  if (::stat(setting.path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return open_directory_layer(setting, reporter);
  TrustPolicy policy = TrustPolicy::of_this_process();
  policy.or_root = true;
  std::string why;
  auto pack = PackStore::open(setting.path, setting.sha256, policy, why);
  if (!pack) reporter.warn_once(Warning::layer, why + "; layer ignored");
  return pack;
}

}  // namespace tileweave::cache
