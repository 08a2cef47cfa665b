// The reference page of all settings: docs/SETTINGS.md is what this says.
#pragma once

#include <string>

namespace braid::settings {

// Markdown.
std::string reference_page();

}  // namespace braid::settings
