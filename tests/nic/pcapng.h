// Reads a capture back as the draft describes the format, apart from the code that writes it. Stops at the
// first error, and tells what it is.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace braid::proxy::test {

struct CapturedFrame {
  std::uint32_t interface = 0;
  std::uint64_t ns = 0;  // since 1970
  std::uint32_t length = 0;
  std::vector<std::byte> bytes;  // as many as were kept
  std::uint32_t flags = 0;
};

struct CapturedInterface {
  std::string name;
  std::uint32_t snap_bytes = 0;
  std::uint16_t link_type = 0;
  int time_digits = 6;                   // after the second; the draft's default
  std::optional<std::uint64_t> seen;     // from the statistics at the end
  std::optional<std::uint64_t> missing;  // the same
};

struct Capture {
  std::vector<CapturedInterface> interfaces;
  std::vector<CapturedFrame> frames;
  std::string problem;  // empty: the file is whole and well formed
};

class CaptureReader {
 public:
  explicit CaptureReader(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
    bytes_.resize(text.size());
    if (!text.empty()) std::memcpy(bytes_.data(), text.data(), text.size());
  }
  std::size_t file_bytes() const { return bytes_.size(); }

  Capture read() {
    std::size_t at = 0;
    for (unsigned block = 0; at < bytes_.size() && capture_.problem.empty(); ++block) {
      if (bytes_.size() - at < 12) return fail("a block is cut off");
      const auto type = load<std::uint32_t>(bytes_.data() + at);
      const auto length = load<std::uint32_t>(bytes_.data() + at + 4);
      if (length < 12 || length % 4 != 0 || length > bytes_.size() - at) return fail("a block's length");
      if (load<std::uint32_t>(bytes_.data() + at + length - 4) != length)
        return fail("a block's second length");
      if ((block == 0) != (type == 0x0a0d0d0a)) return fail("the section header must come first, and once");
      const ByteView body(bytes_.data() + at + 8, length - 12);
      if (type == 0x0a0d0d0a) section(body);
      if (type == 1) interface(body);
      if (type == 5) statistics(body);
      if (type == 6) packet(body);
      at += length;
    }
    return capture_;
  }

 private:
  Capture fail(const std::string& what) {
    capture_.problem = what;
    return capture_;
  }
  template <class F>
  void options(ByteView rest, F&& each) {
    while (rest.size() >= 4) {
      const auto code = load<std::uint16_t>(rest.data());
      const auto bytes = load<std::uint16_t>(rest.data() + 2);
      if (code == 0) {
        if (bytes != 0 || rest.size() != 4) capture_.problem = "something follows the end of options";
        return;
      }
      if (round_up(bytes, 4) > rest.size() - 4) break;
      each(code, rest.subspan(4, bytes));
      rest = rest.subspan(4 + round_up(bytes, 4));
    }
    capture_.problem = "options without an end";
  }
  void section(ByteView body) {
    if (load<std::uint32_t>(body.data()) != 0x1a2b3c4d) capture_.problem = "the byte order's mark";
    options(body.subspan(16), [](std::uint16_t, ByteView) {});
  }
  void interface(ByteView body) {
    CapturedInterface i;
    i.link_type = load<std::uint16_t>(body.data());
    i.snap_bytes = load<std::uint32_t>(body.data() + 4);
    options(body.subspan(8), [&](std::uint16_t code, ByteView value) {
      if (code == 2) i.name.assign(reinterpret_cast<const char*>(value.data()), value.size());
      if (code == 9) i.time_digits = std::to_integer<int>(value[0]);
    });
    capture_.interfaces.push_back(i);
  }
  void statistics(ByteView body) {
    const auto which = load<std::uint32_t>(body.data());
    if (which >= capture_.interfaces.size()) return void(capture_.problem = "statistics of no interface");
    options(body.subspan(12), [&](std::uint16_t code, ByteView value) {
      if (code == 4) capture_.interfaces[which].seen = load<std::uint64_t>(value.data());
      if (code == 5) capture_.interfaces[which].missing = load<std::uint64_t>(value.data());
    });
  }
  void packet(ByteView body) {
    CapturedFrame f;
    f.interface = load<std::uint32_t>(body.data());
    if (f.interface >= capture_.interfaces.size()) return void(capture_.problem = "a packet of no interface");
    f.ns = std::uint64_t{load<std::uint32_t>(body.data() + 4)} << 32 | load<std::uint32_t>(body.data() + 8);
    const auto kept = load<std::uint32_t>(body.data() + 12);
    f.length = load<std::uint32_t>(body.data() + 16);
    if (!inside(20, round_up(kept, 4), body.size())) return void(capture_.problem = "a packet's length");
    f.bytes.assign(body.begin() + 20, body.begin() + 20 + kept);
    options(body.subspan(20 + round_up(kept, 4)), [&](std::uint16_t code, ByteView value) {
      if (code == 2) f.flags = load<std::uint32_t>(value.data());
    });
    capture_.frames.push_back(std::move(f));
  }

  std::vector<std::byte> bytes_;
  Capture capture_;
};

inline Capture read_capture(const std::string& path) {
  return CaptureReader(path).read();
}

}  // namespace braid::proxy::test
