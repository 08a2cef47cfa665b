// The kinds of the page protocol's messages, as reports and traces of simulations name them: "page_request".
#pragma once

#include <cstddef>
#include <string_view>

#include "dsm/engine/types.h"

namespace braid::cli {

// `kind`: its place in dsm::kSentNames, whose names begin with "sent_".
inline std::string_view kind_name(std::size_t kind) {
  return std::string_view(dsm::kSentNames[kind]).substr(std::string_view("sent_").size());
}

}  // namespace braid::cli
