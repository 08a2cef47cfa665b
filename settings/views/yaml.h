// YAML as settings are written in by people. The one place that knows yaml-cpp.
#pragma once

#include <string>

#include "base/result.h"
#include "settings/document.h"

namespace braid::settings {

// The one document that `text` is; its root is null if it says nothing. `name` is the file's, for messages.
// No input throws.
Result<Document> parse_yaml(const std::string& text, const std::string& name);

}  // namespace braid::settings
