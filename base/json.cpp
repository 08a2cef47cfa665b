#include "base/json.h"

// Here they are made.
namespace nlohmann {

template class basic_json<>;
template class basic_json<ordered_map>;

namespace detail {

template class serializer<json>;
template class serializer<ordered_json>;

template class parser<json, StringAdapter>;
template class parser<ordered_json, StringAdapter>;
template class lexer<json, StringAdapter>;
template class lexer<ordered_json, StringAdapter>;

}  // namespace detail
}  // namespace nlohmann
