#include "tools/braid/decrypt/key_ring.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string_view>

#include "proxy/daemon/key_log.h"
#include "stack/secure/packet_cipher.h"

namespace braid::cli {

Result<KeyRing::Lines> KeyRing::add_file(const std::string& path) {
  std::error_code problem;
  const std::filesystem::file_status about = std::filesystem::status(path, problem);
  if (std::filesystem::exists(about) && !std::filesystem::is_regular_file(about))
    return error("{}: it is no regular file; name the one that 'braid run --keylog' wrote", path);
  std::ifstream file(path);
  if (!file) return error("{}: cannot be read ({})", path, std::strerror(errno));
  Lines lines;
  std::array<char, proxy::kMaxKeyLineBytes> line;
  stack::KeyBytes room;
  for (std::uint64_t number = 1; file.getline(line.data(), line.size()) || file.gcount() > 0; ++number) {
    // A line that is too long is none; what is left of it is passed over.
    const bool is_whole = !file.fail();
    if (!is_whole) {
      file.clear();
      file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    const std::string_view text(line.data());
    if (is_whole && (text.empty() || text.front() == '#')) continue;
    const std::optional<stack::PacketKey> key =
        is_whole ? proxy::parse_key_line(text, room) : std::optional<stack::PacketKey>();
    if (key) {
      add(*key);
      ++lines.keys;
    } else if (++lines.others == 1) {
      lines.first_other = number;
    }
  }
  stack::wipe(room);
  stack::wipe(std::as_writable_bytes(std::span(line)));
  if (file.bad()) return error("{}: cannot be read ({})", path, std::strerror(errno));
  if (lines.keys == 0)
    return error("{}: none of its lines is a key; name the file that 'braid run --keylog' wrote", path);
  return lines;
}

void KeyRing::add(const stack::PacketKey& key) {
  keys_.try_emplace({key.sender_epoch, key.receiver_epoch, key.generation},
                    Key{key.cipher, stack::Secret(key.key), std::nullopt});
}

KeyRing::Opening KeyRing::open(const stack::PacketHeader& header, ByteView header_bytes, ByteView sealed) {
  if (sealed.size() < stack::kSealBytes) return Opening::kNoKey;
  const std::uint64_t generation = stack::generation_of(stack::packet_number(sealed));
  const auto found = keys_.find({header.sender_epoch, header.receiver_epoch, generation});
  if (found == keys_.end()) return Opening::kNoKey;
  Key& key = found->second;
  if (!key.opener) key.opener.emplace(stack::Aead::Use::kOpen).set_key(key.cipher, key.bytes.bytes());
  text_.resize(sealed.size() - stack::kSealBytes);
  return stack::open_packet(*key.opener, header_bytes, sealed, text_.data()) ? Opening::kOpened
                                                                             : Opening::kNotOpened;
}

}  // namespace braid::cli
