// A configuration file with every setting of a run at its default: configs/default.yaml is this text.
#pragma once

#include <string>

namespace braid::settings {

// YAML. Above each setting stands a comment with its help, its allowed values and the reason for its default.
std::string default_file();

}  // namespace braid::settings
