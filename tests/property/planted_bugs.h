// Mistakes that a GPU lowering could make, planted into the module it made: barriers dropped, layouts off by one, masks
// lost, wrong swizzles, wrong lanes.
// planted_bugs_test.cpp counts how many the tests find.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace llvm {
class Module;
}

namespace tileweave::property {

struct PlantedBug {
  std::string name;
  // Changes every place of the module that the mistake would touch; false where there is none.
  std::function<bool(llvm::Module&)> plant;
};
std::vector<PlantedBug> planted_bugs();

}  // namespace tileweave::property
