#include <cstring>
#include <vector>

#include "base/check.h"
#include "bench/stage_times_clock.h"
#include "bench/stage_times_parts.h"
#include "dsm/engine/diff.h"
#include "dsm/engine/engine.h"

namespace braid::bench {

namespace {

constexpr std::size_t kPageBytes = dsm::PageLength().bytes();

class ArrayPages final : public dsm::PageMemory {
 public:
  explicit ArrayPages(std::uint32_t pages) : bytes_(std::size_t{pages} * kPageBytes) {}
  void protect(PageId, std::uint32_t, dsm::Access) override {}
  std::byte* page(PageId page) override { return &bytes_[std::size_t{page.value()} * kPageBytes]; }

 private:
  std::vector<std::byte> bytes_;
};

dsm::EngineConfig engine_config(std::uint16_t cluster, std::uint16_t clusters) {
  dsm::EngineConfig c;
  c.cluster = ClusterId(cluster);
  c.clusters = clusters;
  c.pages = 16;
  c.locks = 16;
  c.barriers = 4;
  c.words = 16;
  c.twins = 16;
  return c;
}

}  // namespace

EngineTimes time_engine(unsigned samples, double clock) {
  EngineTimes t;
  ArrayPages pages(16);
  dsm::Engine alone(engine_config(0, 1), pages);
  t.lock = ns_each(samples, kRow,
                   [&](int) {
                     CHECK(alone.lock(0, dsm::LockId(7)));
                     alone.unlock(0, dsm::LockId(7));
                   }) /
           2;
  t.barrier = ns_each(samples, kRow, [&](int) { CHECK(alone.barrier(0, dsm::BarrierId(1))); });
  dsm::SyncCall add;
  add.op = dsm::SyncOp::kWordAdd;
  add.first = 1;
  t.sync = ns_each(samples, kRow, [&](int) { CHECK(alone.sync(0, add)); });

  // A word whose home is elsewhere: one message there and one back.
  ArrayPages more(16);
  dsm::Engine first(engine_config(0, 2), pages), second(engine_config(1, 2), more);
  dsm::Engine* const engines[2] = {&first, &second};
  std::vector<std::byte> room(dsm::max_message_bytes(dsm::PageLength()));
  std::vector<double> taken, written;
  const auto pump = [&](int from) {
    const auto source = ClusterId(static_cast<std::uint16_t>(from));
    const auto destination = ClusterId(static_cast<std::uint16_t>(1 - from));
    while (engines[from]->has_output(destination)) {
      const Instant begin = monotonic_now();
      const std::size_t bytes = engines[from]->poll_transmit(destination, room);
      const Instant polled = monotonic_now();
      if (bytes == 0) return;
      engines[1 - from]->on_message(source, ByteView(room).first(bytes));
      const Instant handled = monotonic_now();
      written.push_back(ns_between(begin, polled) - clock);
      taken.push_back(ns_between(polled, handled) - clock);
    }
  };
  for (unsigned s = 0; s < 20 * samples; ++s) {
    add.id = s % 16;
    for (const int asks : {0, 1}) {
      if (engines[asks]->sync(0, add)) continue;  // it is at home here
      while (!engines[asks]->done(0)) {
        pump(asks);
        pump(1 - asks);
      }
    }
  }
  t.small_message = median(taken);
  t.small_output = median(written);
  return t;
}

PageTimes time_pages(unsigned samples) {
  PageTimes t;
  // More than a first-level cache has, as a program's pages are.
  constexpr int kPages = 128;
  std::vector<std::byte> from(kPages * kPageBytes, std::byte{1}), to(kPages * kPageBytes);
  t.copy = ns_each(samples, kPages, [&](int i) {
    const std::size_t at = static_cast<std::size_t>(i) * kPageBytes;
    std::memcpy(to.data() + at, from.data() + at, kPageBytes);
    keep(to);
  });
  // Changes of eight bytes: few of them, or in half of the page.
  const auto change = [&](int i, std::size_t changes) {
    std::byte* const page = to.data() + static_cast<std::size_t>(i) * kPageBytes;
    for (std::size_t c = 0; c < changes; ++c) std::memset(page + c * 16, 2, 8);
  };
  struct Diff {
    double find, apply, bytes;
  };
  const auto diff_of = [&](std::size_t changes) {
    std::memcpy(to.data(), from.data(), to.size());
    for (int i = 0; i < kPages; ++i) change(i, changes);
    std::vector<std::byte> room(dsm::max_diff_bytes(dsm::PageLength()));
    dsm::EncodedDiff encoded;
    Diff d{};
    d.find = ns_each(samples, kPages, [&](int i) {
      const std::size_t at = static_cast<std::size_t>(i) * kPageBytes;
      encoded = dsm::encode_diff(dsm::PageLength(), to.data() + at, from.data() + at, room);
      keep(room);
    });
    d.apply = ns_each(samples, kPages, [&](int i) {
      CHECK(dsm::apply_diff(dsm::PageLength(), encoded.format, ByteView(room).first(encoded.bytes),
                            to.data() + static_cast<std::size_t>(i) * kPageBytes));
      keep(to);
    });
    d.bytes = static_cast<double>(encoded.bytes);
    return d;
  };
  const Diff few = diff_of(1), many = diff_of(kPageBytes / 16);
  t.diff = few.find;
  t.diff_byte = (many.find - few.find + many.apply - few.apply) / 2 / (many.bytes - few.bytes);
  return t;
}

}  // namespace braid::bench
