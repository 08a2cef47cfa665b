// Which outputs of an application have a label before each line that names the cluster; the others are passed byte for
// byte. The words are those of --label. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace braid::cli {

enum class Labels : std::uint8_t { kAll, kErrors, kNone };

inline constexpr std::string_view kLabelWords[] = {"all", "stderr", "none"};  // in the enumerators' order

inline constexpr std::string_view word_of(Labels labels) {
  return kLabelWords[static_cast<unsigned>(labels)];
}
inline constexpr std::optional<Labels> labels_named(std::string_view word) {
  for (const Labels labels : {Labels::kAll, Labels::kErrors, Labels::kNone})
    if (word == word_of(labels)) return labels;
  return std::nullopt;
}
// `stream`: 1, standard output, or 2, standard error.
inline constexpr bool has_labels(Labels labels, int stream) {
  return labels == Labels::kAll || (labels == Labels::kErrors && stream == 2);
}

}  // namespace braid::cli
