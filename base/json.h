// nlohmann/json, for command lines and reports. What the compiler makes of its two kinds of documents is made once, in
// json.cpp (braid_json), and not in every file that uses them, where it is a fifth to two fifths of the compiler's work.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nlohmann {

extern template class basic_json<>;
extern template class basic_json<ordered_map>;

namespace detail {

extern template class serializer<json>;
extern template class serializer<ordered_json>;

// They read a std::string.
using StringAdapter = iterator_input_adapter<std::string::const_iterator>;
extern template class parser<json, StringAdapter>;
extern template class parser<ordered_json, StringAdapter>;
extern template class lexer<json, StringAdapter>;
extern template class lexer<ordered_json, StringAdapter>;

}  // namespace detail
}  // namespace nlohmann
