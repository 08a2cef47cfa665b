#include "tools/braid/run/messages.h"

#include <algorithm>

#include "tools/braid/process/forget.h"

namespace braid::cli {
namespace {

constexpr std::size_t kLengthBytes = 4;

}  // namespace

void refuse_message(const char* what) {
  throw Message::other_error::create(500, what, nullptr);
}

std::string encode(const Message& message) {
  std::string text(kLengthBytes, '\0');
  Message::to_cbor(message, text);
  const std::size_t length = text.size() - kLengthBytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) text[i] = static_cast<char>(length >> 8 * i & 0xff);
  return text;
}

Message bytes_value(std::string_view bytes) {
  return Message::binary({bytes.begin(), bytes.end()});
}

std::string_view bytes_of(const Message& value) {
  const auto& bytes = value.get_binary();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool MessageReader::skip_to(std::string_view greeting, std::string& skipped) {
  const std::size_t at = text_.find(greeting);
  const bool has_come = at != std::string::npos;
  std::size_t end = at;
  if (!has_come) {
    end = text_.size() - std::min(text_.size(), greeting.size() - 1);
    while (!greeting.starts_with(std::string_view(text_).substr(end))) ++end;
  }
  skipped = text_.substr(0, end);
  forget_front(text_, has_come ? end + greeting.size() : end);
  return has_come;
}

std::optional<Message> MessageReader::next() {
  const std::size_t there = text_.size() - begin_;
  std::size_t length = 0;
  if (there >= kLengthBytes) {
    for (std::size_t i = 0; i < kLengthBytes; ++i)
      length |= std::size_t{static_cast<unsigned char>(text_[begin_ + i])} << 8 * i;
    if (length > kMaxMessageBytes) refuse_message("its length is not possible");
  }
  if (there < kLengthBytes + length || there < kLengthBytes) {
    forget_front(text_, begin_);
    begin_ = 0;
    return {};
  }
  const auto first = text_.begin() + static_cast<std::ptrdiff_t>(begin_ + kLengthBytes);
  begin_ += kLengthBytes + length;
  return Message::from_cbor(first, first + static_cast<std::ptrdiff_t>(length));
}

}  // namespace braid::cli
