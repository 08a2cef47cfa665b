// The reference page of all settings: docs/SETTINGS.md is this text.
#pragma once

#include <string>

namespace braid::settings {

// Markdown.
std::string reference_page();

}  // namespace braid::settings
