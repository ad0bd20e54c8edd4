// One generated header: every decorated function of a file as a body, and the groups that users name.
#pragma once

#include <optional>
#include <string>

#include "source.h"

namespace tileweave::decorator {

// The header's text for what was parsed from `file`, to stand in a file called `header_name`. Nothing where something
// could not be translated; that has been reported then.
std::optional<std::string> header(Parsed& parsed, const std::string& file, const std::string& header_name);

}  // namespace tileweave::decorator
