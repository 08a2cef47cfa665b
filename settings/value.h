// The value of one setting as text: what is allowed, what is wrong with a text, and the value that it stands
// for. Every view sets and shows values through these, so one text is right or wrong everywhere alike.
#pragma once

#include <string>

#include "settings/setting.h"

namespace braid::settings {

// "1 to 64", "auto, or 576 to 9000", "shm, dpdk"
std::string allowed(const Setting& setting);

// What is wrong with `text`, with the cure; empty: nothing.
std::string problem_of(const Setting& setting, const std::string& text);

// Sets it; returns what is wrong and leaves the value alone, or nothing.
std::string assign(const Setting& setting, void* object, const std::string& text);

// The value as text: what assign() takes.
std::string text_of(const Setting& setting, const void* object);

// A whole number with its unit, or nothing if there is none: "500 ms".
std::string with_unit(const Setting& setting, const std::string& text);

}  // namespace braid::settings
