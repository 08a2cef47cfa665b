// The value of one setting as text: which texts are allowed, and the value that a text stands for. Every view
// sets and shows values through these functions, so that a text is accepted everywhere or nowhere.
#pragma once

#include <string>

#include "settings/setting.h"

namespace braid::settings {

// "1 to 64", "auto, or 576 to 9000", "shm, dpdk"
std::string allowed(const Setting& setting);

// The problem with `text` and the cure; empty: it is allowed.
std::string problem_of(const Setting& setting, const std::string& text);

// Sets the value. If `text` is not allowed, returns the problem and leaves the value unchanged.
std::string assign(const Setting& setting, void* object, const std::string& text);

// The value as text, as assign() takes it.
std::string text_of(const Setting& setting, const void* object);

// `text` with the setting's unit: "500 ms". "auto" has none.
std::string with_unit(const Setting& setting, const std::string& text);

}  // namespace braid::settings
