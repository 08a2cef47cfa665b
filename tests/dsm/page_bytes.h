// The length of pages in tests that are of no particular length: the default.
#pragma once

#include "dsm/engine/types.h"

namespace braid::dsm {

inline constexpr std::size_t kPageBytes = PageLength().bytes();

}  // namespace braid::dsm
