#include "proxy/nic/shm_wire.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/memory_file.h"

namespace braid::proxy {
namespace {

constexpr std::uint64_t kMagic = 0x6572697764696172;  // "raidwire"
constexpr std::uint32_t kVersion = 2;
constexpr std::uint64_t kLine = 64;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

enum class Attachment : std::uint32_t { kNever = 0, kMapped = 1, kGone = 2 };

// Written once by create_shm_wire(), but for the attachments.
struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t queues;
  std::uint32_t frames_per_ring;
  std::uint32_t max_frame_bytes;
  std::uint64_t total_bytes;
  alignas(kLine) std::atomic<Attachment> attached[2];  // by side
};
static_assert(std::is_standard_layout_v<Header>);
static_assert(std::atomic<Attachment>::is_always_lock_free);

constexpr std::uint64_t kRingBytes = round_up(sizeof(ShmRing), kLine);
constexpr std::uint64_t kRingsOffset = round_up(sizeof(Header), kLine);

// The first lines of all slots (the headers, which every packet touches) would fall into a few sets of the L1
// and L2 caches if the stride were a multiple of a large power of two (8192: into one set of a 64-set L1). An
// odd number of lines spreads them over all sets.
constexpr std::uint32_t stride_for(std::uint32_t max_frame_bytes) {
  const std::uint64_t lines = round_up(max_frame_bytes, kLine) / kLine;
  return static_cast<std::uint32_t>((lines | 1) * kLine);
}
static_assert(stride_for(64) == 64 && stride_for(65) == 192 && stride_for(8192) == 8256);

Header& header_of(std::byte* memory) {
  return *std::launder(reinterpret_cast<Header*>(memory));
}
std::atomic<Attachment>& attachment(std::byte* memory, ShmSide side) {
  return header_of(memory).attached[static_cast<std::uint32_t>(side)];
}

Result<std::byte*> map_shared(int fd, std::uint64_t bytes) {
  // Populated, so that no proxy takes a page fault in its first lap.
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory == MAP_FAILED) {
    return error("shm wire: cannot map {} bytes: {}; lower the number of queues or frames_per_ring", bytes,
                 std::strerror(errno));
  }
  return static_cast<std::byte*>(memory);
}

// The options that the header of a wire states, if the memory behind `fd` can hold such a wire for ever.
Result<ShmWireOptions> read_options(int fd) {
  Header header;
  if (::pread(fd, static_cast<void*>(&header), sizeof header, 0) != static_cast<ssize_t>(sizeof header)) {
    return error("shm wire: descriptor {} holds no wire: its header cannot be read", fd);
  }
  if (header.magic != kMagic || header.version != kVersion) {
    return error("shm wire: descriptor {} holds no wire of version {}: make it with create_shm_wire()", fd,
                 kVersion);
  }
  const ShmWireOptions options{.queues = header.queues,
                               .frames_per_ring = header.frames_per_ring,
                               .max_frame_bytes = header.max_frame_bytes};
  if (Result<void> valid = options.validate(); !valid) return valid.error();
  struct stat status {};
  const std::uint64_t total_bytes = ShmWireLayout(options).total_bytes();
  if (::fstat(fd, &status) != 0 || static_cast<std::uint64_t>(status.st_size) != total_bytes ||
      header.total_bytes != total_bytes) {
    return error("shm wire: descriptor {} has {} bytes, a wire of its geometry has {}", fd, status.st_size,
                 total_bytes);
  }
  if ((::fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW)) {
    return error("shm wire: descriptor {} is not sealed: its maker could shrink it under the mapping", fd);
  }
  return options;
}

}  // namespace

Result<void> ShmWireOptions::validate() const {
  if (queues < 1 || queues > kShmWireMaxQueues) {
    return error("shm wire: {} queues; 1 to {} are possible", queues, kShmWireMaxQueues);
  }
  if (frames_per_ring < kMaxBurst || frames_per_ring > kShmWireMaxFramesPerRing ||
      !std::has_single_bit(frames_per_ring)) {
    return error("shm wire: frames_per_ring {}; the powers of two from {} to {} are possible",
                 frames_per_ring, kMaxBurst, kShmWireMaxFramesPerRing);
  }
  if (max_frame_bytes < kShmWireMinFrameBytes || max_frame_bytes > kShmWireMaxFrameBytes) {
    return error("shm wire: max_frame_bytes {}; {} to {} are possible", max_frame_bytes,
                 kShmWireMinFrameBytes, kShmWireMaxFrameBytes);
  }
  return {};
}

ShmWireLayout::ShmWireLayout(const ShmWireOptions& options)
    : options_(options), slot_stride_(stride_for(options.max_frame_bytes)) {
  CHECK(options.validate().ok());
}

std::uint64_t ShmWireLayout::ring_offset(unsigned queue, ShmSide sender) const {
  CHECK_LT(queue, options_.queues);
  return kRingsOffset + (2 * queue + static_cast<std::uint32_t>(sender)) * kRingBytes;
}

std::uint64_t ShmWireLayout::slots_offset(unsigned queue, ShmSide sender) const {
  CHECK_LT(queue, options_.queues);
  const std::uint64_t rings_end = kRingsOffset + 2 * options_.queues * kRingBytes;
  return rings_end + (2 * queue + static_cast<std::uint32_t>(sender)) * std::uint64_t{slots()} * slot_stride_;
}

std::uint64_t ShmWireLayout::total_bytes() const {
  const unsigned last = options_.queues - 1;
  return slots_offset(last, ShmSide::kB) + std::uint64_t{slots()} * slot_stride_;
}

Result<int> create_shm_wire(const ShmWireOptions& options) {
  if (Result<void> valid = options.validate(); !valid) return valid.error();
  const ShmWireLayout layout(options);
  const std::uint64_t bytes = layout.total_bytes();
  const Result<int> made = make_memory_file("braid-wire", bytes, MemoryFile::kAllocated, kSeals);
  if (!made) {
    return error("shm wire: {}; or lower queues ({}), frames_per_ring ({}) or max_frame_bytes ({})",
                 made.error().text, options.queues, options.frames_per_ring, options.max_frame_bytes);
  }
  const int fd = *made;
  const auto fail = [fd](Error failure) {
    ::close(fd);
    return failure;
  };
  Result<std::byte*> memory = map_shared(fd, bytes);
  if (!memory) return fail(memory.error());
  auto* header = ::new (*memory) Header{};
  header->magic = kMagic;
  header->version = kVersion;
  header->queues = options.queues;
  header->frames_per_ring = options.frames_per_ring;
  header->max_frame_bytes = options.max_frame_bytes;
  header->total_bytes = bytes;
  for (unsigned queue = 0; queue < options.queues; ++queue) {
    for (const ShmSide sender : {ShmSide::kA, ShmSide::kB}) {
      ::new (*memory + layout.ring_offset(queue, sender)) ShmRing;
    }
  }
  ::munmap(*memory, bytes);
  return fd;
}

Result<std::shared_ptr<ShmWire>> ShmWire::map(int fd, ShmSide side) {
  const Result<ShmWireOptions> options = read_options(fd);
  if (!options) return options.error();
  const ShmWireLayout layout(options.value());
  Result<std::byte*> memory = map_shared(fd, layout.total_bytes());
  if (!memory) return memory.error();
  Attachment expected = Attachment::kNever;
  if (!attachment(*memory, side).compare_exchange_strong(expected, Attachment::kMapped)) {
    ::munmap(*memory, layout.total_bytes());
    return error("shm wire: side {} is or was mapped already: give the restarted side a new wire",
                 side == ShmSide::kA ? 'A' : 'B');
  }
  (void)WakeBarrier::join();  // a refusal costs a fence for each burst, and nothing else
  return std::shared_ptr<ShmWire>(new ShmWire(*memory, layout, side));
}

ShmWire::~ShmWire() {
  attachment(memory_, side_).store(Attachment::kGone, std::memory_order_release);
  for (unsigned index = 0; index < queues(); ++index)
    std::launder(reinterpret_cast<ShmRing*>(memory_ + layout_.ring_offset(index, side_)))
        ->wake.ring_if_asleep();
  ::munmap(memory_, layout_.total_bytes());
}

std::unique_ptr<ShmQueue> ShmWire::queue(unsigned index) {
  CHECK_LT(index, queues());
  CHECK_EQ((taken_ >> index) & 1, 0u);
  taken_ |= std::uint64_t{1} << index;
  return std::unique_ptr<ShmQueue>(new ShmQueue(shared_from_this(), index));
}

bool ShmWire::link_up() const {
  return attachment(memory_, other(side_)).load(std::memory_order_acquire) == Attachment::kMapped;
}

ShmQueue::ShmQueue(std::shared_ptr<ShmWire> wire, unsigned index)
    : wire_(std::move(wire)),
      frames_per_ring_(wire_->layout_.options().frames_per_ring),
      max_frame_bytes_(wire_->layout_.options().max_frame_bytes),
      slot_stride_(wire_->layout_.slot_stride()),
      receive_(lane(index, other(wire_->side_))),
      transmit_(lane(index, wire_->side_)) {}

ShmQueue::Lane ShmQueue::lane(unsigned index, ShmSide sender) const {
  std::byte* const memory = wire_->memory_;
  return {
      .ring = std::launder(reinterpret_cast<ShmRing*>(memory + wire_->layout_.ring_offset(index, sender))),
      .slots = memory + wire_->layout_.slots_offset(index, sender),
      .next = 0,
      .freed = 0};
}

std::byte* ShmQueue::slot(const Lane& lane, std::uint32_t number) const {
  return lane.slots + std::size_t{number & (frames_per_ring_ - 1)} * slot_stride_;
}

std::size_t ShmQueue::receive(std::span<MutableBytes> frames) {
  WakeBarrier::order();  // the look whether the other side sleeps comes after the commits of before
  const std::size_t wanted = std::min(frames.size(), kMaxBurst);
  if (receive_.freed != receive_.next) {
    receive_.freed = receive_.next;
    receive_.ring->consumed.store(receive_.freed, std::memory_order_release);
  }
  std::size_t filled = 0;
  while (filled < wanted && receive_.next - receive_.freed < kMaxBurst) {
    const std::uint64_t announced = entry(receive_, receive_.next).load(std::memory_order_acquire);
    const auto length = static_cast<std::uint32_t>(announced);
    if (announced != shm_entry(receive_.next, length)) break;
    if (length == 0 || length > max_frame_bytes_) [[unlikely]] {
      if (length == kShmAsleep) {
        on_other_asleep();
        break;
      }
      bad_lengths_.add();
    } else {
      frames[filled++] = MutableBytes(slot(receive_, receive_.next), length);
    }
    ++receive_.next;
  }
  return filled;
}

void ShmQueue::refresh_room() {
  const std::uint32_t consumed = transmit_.ring->consumed.load(std::memory_order_acquire);
  if (consumed - transmit_.freed <= transmit_.next - transmit_.freed) transmit_.freed = consumed;
}

std::size_t ShmQueue::reserve(std::span<TxFrame> frames) {
  const std::size_t wanted = std::min(frames.size(), kMaxBurst);
  if (room() < wanted) refresh_room();
  const std::size_t offered = std::min<std::size_t>(wanted, room());
  for (std::uint32_t i = 0; i < offered; ++i) {
    frames[i] = {.data = slot(transmit_, transmit_.next + i), .capacity = max_frame_bytes_, .length = 0};
  }
  return offered;
}

void ShmQueue::commit(std::span<const TxFrame> frames) {
  CHECK_LE(frames.size(), kMaxBurst);
  CHECK_LE(frames.size(), room());
  for (const TxFrame& frame : frames) {
    CHECK_EQ(static_cast<const void*>(frame.data), static_cast<const void*>(slot(transmit_, transmit_.next)));
    CHECK_GT(frame.length, 0u);
    CHECK_LE(frame.length, max_frame_bytes_);
    entry(transmit_, transmit_.next)
        .store(shm_entry(transmit_.next, frame.length), std::memory_order_release);
    ++transmit_.next;
  }
  if (other_sleeps_ && !frames.empty()) [[unlikely]]
    ring_other_side();  // the next receive() would do so: a turn earlier
}

// It is rung once for what was committed since it was woken, unless it has taken all of that: then it fell asleep
// afterwards.
void ShmQueue::on_other_asleep() {
  other_sleeps_ = true;
  if (rung_at_ != transmit_.next &&
      transmit_.ring->consumed.load(std::memory_order_acquire) != transmit_.next)
    ring_other_side();
}

void ShmQueue::ring_other_side() {
  other_sleeps_ = false;
  rung_at_ = transmit_.next;
  transmit_.ring->wake.ring();
}

WakeWord* ShmQueue::wake_word() {
  if (room() == 0) refresh_room();
  return room() == 0 ? nullptr : &receive_.ring->wake;
}

void ShmQueue::announce_sleep() {
  receive_.ring->wake.announce();
  if (room() > 0)
    entry(transmit_, transmit_.next).store(shm_entry(transmit_.next, kShmAsleep), std::memory_order_relaxed);
}

// A frame that was committed meanwhile has taken the announcement's place. The number before the next one stands for
// no frame, whatever the other side awaits there.
void ShmQueue::withdraw_sleep() {
  receive_.ring->wake.withdraw();
  std::atomic<std::uint64_t>& next = entry(transmit_, transmit_.next);
  if (next.load(std::memory_order_relaxed) == shm_entry(transmit_.next, kShmAsleep))
    next.store(shm_entry(transmit_.next - 1, 0), std::memory_order_relaxed);
}

}  // namespace braid::proxy
