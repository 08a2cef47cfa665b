#include "proxy/xdp/xdp_queue.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/check.h"

namespace braid::proxy {
namespace {

// Rings and frames of each direction. What arrives while the proxy does not run must fit: the windows of several peers.
constexpr std::uint32_t kReceiving = 2048;
constexpr std::uint32_t kSending = 512;
// Places in the rings to the kernel for each frame. The kernel delivers a frame, or tells that it is sent, before it tells that the place is
// free from which it took it (xsk_flush(), __xsk_generic_xmit()); so a frame may come back while the ring still seems to hold it.
constexpr std::uint32_t kRingPlaces = 2;
// In front of what arrives (XDP_PACKET_HEADROOM).
constexpr std::uint32_t kHeadroom = 256;
// How often a burst is tried: the kernel sends 32 frames a call, and a call ends at a frame that the interface refuses.
constexpr unsigned kSendCalls = 2 * kMaxBurst;
// A queue that a killed process had is free a moment later.
constexpr unsigned kTries = 200;
constexpr timespec kBetweenTries{.tv_sec = 0, .tv_nsec = 10'000'000};

std::uint32_t stride_of(std::uint32_t max_frame_bytes) {
  return max_frame_bytes + kHeadroom <= 2048 ? 2048 : 4096;
}

std::string cure_of(int why, const XdpQueueOptions& options) {
  switch (why) {
    case EPERM:
    case EACCES:
      return "AF_XDP needs the capability CAP_NET_RAW: run as root, or take udp, which needs none";
    case EAFNOSUPPORT:
    case ESOCKTNOSUPPORT:
      return "this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS); take udp";
    case ENOBUFS:
    case ENOMEM:
      return "not enough memory that may be locked: raise 'ulimit -l', or give the capability CAP_IPC_LOCK";
    case EBUSY:
      return fmt::format(
          "another process has an AF_XDP socket there; see 'ss --xdp', and end it, or take another interface than {}",
          options.interface);
    default:
      return std::strerror(why);
  }
}

}  // namespace

Result<std::unique_ptr<XdpQueue>> XdpQueue::open(const XdpQueueOptions& options,
                                                 std::shared_ptr<KernelPaths> paths,
                                                 std::shared_ptr<XdpProgram> program,
                                                 std::shared_ptr<SocketWaker> waker) {
  CHECK_LE(options.max_frame_bytes, kXdpMaxFrameBytes);
  std::unique_ptr<XdpQueue> queue(
      new XdpQueue(options, std::move(paths), std::move(program), std::move(waker)));
  if (const Result<void> made = queue->make_memory(); !made) return made.error();
  if (const Result<void> made = queue->make_socket(); !made) return made.error();
  const int socket = ::xsk_socket__fd(queue->socket_);
  if (const Result<void> served = queue->program_->serve(options.queue, socket); !served)
    return served.error();
  if (queue->waker_ == nullptr) return queue;
  Result<WakeWord*> word = queue->waker_->add(socket);
  if (!word) return word.error();
  queue->word_ = *word;
  return queue;
}

XdpQueue::XdpQueue(const XdpQueueOptions& options, std::shared_ptr<KernelPaths> paths,
                   std::shared_ptr<XdpProgram> program, std::shared_ptr<SocketWaker> waker)
    : options_(options),
      paths_(std::move(paths)),
      program_(std::move(program)),
      waker_(std::move(waker)),
      stride_(stride_of(options.max_frame_bytes)),
      free_(kSending) {}

XdpQueue::~XdpQueue() {
  if (socket_ != nullptr) ::xsk_socket__delete(socket_);
  if (shared_ != nullptr) ::xsk_umem__delete(shared_);
  if (memory_ != nullptr) ::munmap(memory_, std::size_t{kReceiving + kSending} * stride_);
}

Result<void> XdpQueue::make_memory() {
  const std::size_t bytes = std::size_t{kReceiving + kSending} * stride_;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return error("{} bytes of memory: {}", bytes, std::strerror(errno));
  memory_ = static_cast<std::byte*>(memory);
  xsk_umem_config config{};
  config.fill_size = kRingPlaces * kReceiving;
  config.comp_size = kSending;
  config.frame_size = stride_;
  const int status = ::xsk_umem__create(&shared_, memory_, bytes, &fill_, &completed_, &config);
  if (status != 0)
    return error("{}, queue {}: {}", options_.interface, options_.queue, cure_of(-status, options_));
  for (std::uint32_t i = 0; i < kSending; ++i) free_[i] = std::uint64_t{kReceiving + i} * stride_;
  free_count_ = kSending;
  std::uint32_t at = 0;
  const std::uint32_t reserved = ::xsk_ring_prod__reserve(&fill_, kReceiving, &at);
  CHECK_EQ(reserved, kReceiving);
  for (std::uint32_t i = 0; i < kReceiving; ++i)
    *::xsk_ring_prod__fill_addr(&fill_, at + i) = std::uint64_t{i} * stride_;
  ::xsk_ring_prod__submit(&fill_, kReceiving);
  return {};
}

Result<void> XdpQueue::make_socket() {
  xsk_socket_config config{};
  config.rx_size = kReceiving;
  config.tx_size = kRingPlaces * kSending;
  config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
  config.bind_flags = XDP_USE_NEED_WAKEUP;  // and without a copy where the driver can
  int status = -EBUSY;
  for (unsigned i = 0; i < kTries && status == -EBUSY; ++i) {
    if (i > 0) (void)::nanosleep(&kBetweenTries, nullptr);
    status = ::xsk_socket__create(&socket_, options_.interface.c_str(), options_.queue, shared_, &received_,
                                  &sending_, &config);
  }
  if (status == 0) return {};
  socket_ = nullptr;
  return error("{}, queue {}: {}", options_.interface, options_.queue, cure_of(-status, options_));
}

void XdpQueue::give_back_lent() {
  std::uint32_t at = 0;
  // There is a place: see kRingPlaces.
  const std::uint32_t reserved =
      ::xsk_ring_prod__reserve(&fill_, static_cast<std::uint32_t>(lent_count_), &at);
  CHECK_EQ(reserved, lent_count_);
  for (std::size_t i = 0; i < lent_count_; ++i)
    *::xsk_ring_prod__fill_addr(&fill_, at + static_cast<std::uint32_t>(i)) = lent_[i];
  ::xsk_ring_prod__submit(&fill_, static_cast<std::uint32_t>(lent_count_));
  lent_count_ = 0;
}

std::size_t XdpQueue::receive(std::span<MutableBytes> frames) {
  if (lent_count_ > 0) give_back_lent();
  if (has_unsent()) send();
  std::uint32_t at = 0;
  const std::uint32_t count =
      ::xsk_ring_cons__peek(&received_, static_cast<std::uint32_t>(std::min(frames.size(), kMaxBurst)), &at);
  if (count == 0) {
    // A driver without copying that has run out of frames.
    if (::xsk_ring_prod__needs_wakeup(&fill_) != 0)
      (void)::recvfrom(::xsk_socket__fd(socket_), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
    return 0;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const xdp_desc& one = *::xsk_ring_cons__rx_desc(&received_, at + i);
    frames[i] = {memory_ + one.addr, one.len};
    lent_[i] = one.addr / stride_ * stride_;
  }
  ::xsk_ring_cons__release(&received_, count);
  lent_count_ = count;
  return count;
}

void XdpQueue::take_back_sent() {
  std::uint32_t at = 0;
  const std::uint32_t count = ::xsk_ring_cons__peek(&completed_, kSending, &at);
  for (std::uint32_t i = 0; i < count; ++i)
    free_[(first_free_ + free_count_++) % kSending] = *::xsk_ring_cons__comp_addr(&completed_, at + i);
  if (count > 0) ::xsk_ring_cons__release(&completed_, count);
}

std::size_t XdpQueue::reserve(std::span<TxFrame> frames) {
  take_back_sent();
  const std::size_t offered = std::min({frames.size(), kMaxBurst, std::size_t{free_count_}});
  for (std::uint32_t i = 0; i < offered; ++i)
    frames[i] = {.data = memory_ + free_[(first_free_ + i) % kSending],
                 .capacity = options_.max_frame_bytes,
                 .length = 0};
  return offered;
}

void XdpQueue::commit(std::span<const TxFrame> frames) {
  std::uint32_t leaving = 0;
  for (const TxFrame& frame : frames) {
    const std::uint64_t place = free_[first_free_];
    CHECK_EQ(memory_ + place, frame.data);
    first_free_ = (first_free_ + 1) % kSending;
    if (!paths_->address(frame)) {
      free_[(first_free_ + free_count_ - 1) % kSending] = place;  // behind those that are free
      drops_.add();
      continue;
    }
    --free_count_;
    std::uint32_t at = 0;
    // There is a place: see kRingPlaces.
    const std::uint32_t reserved = ::xsk_ring_prod__reserve(&sending_, 1, &at);
    CHECK_EQ(reserved, 1u);
    *::xsk_ring_prod__tx_desc(&sending_, at) = {.addr = place, .len = frame.length, .options = 0};
    ++leaving;
  }
  if (leaving == 0) return;
  ::xsk_ring_prod__submit(&sending_, leaving);
  send();
}

bool XdpQueue::has_unsent() const {
  return __atomic_load_n(sending_.consumer, __ATOMIC_ACQUIRE) != *sending_.producer;
}

// Has the kernel send what is in the ring. What it has no room for stays there, for the next call.
void XdpQueue::send() {
  if (::xsk_ring_prod__needs_wakeup(&sending_) == 0) return;
  bool has_room = true;
  for (unsigned i = 0; i < kSendCalls && has_room; ++i) {
    const std::uint32_t before = __atomic_load_n(sending_.consumer, __ATOMIC_ACQUIRE);
    if (::sendto(::xsk_socket__fd(socket_), nullptr, 0, MSG_DONTWAIT, nullptr, 0) >= 0) return;
    // The kernel has taken one that the interface then refused, and stopped there.
    if (errno == EBUSY)
      drops_.add();
    else
      has_room = errno == EINTR || __atomic_load_n(sending_.consumer, __ATOMIC_ACQUIRE) != before;
  }
}

std::uint64_t XdpQueue::receive_drops() const {
  xdp_statistics all{};
  socklen_t bytes = sizeof all;
  if (::getsockopt(::xsk_socket__fd(socket_), SOL_XDP, XDP_STATISTICS, &all, &bytes) != 0) return 0;
  return all.rx_dropped + all.rx_ring_full;
}

void XdpQueue::announce_sleep() {
  if (has_unsent()) send();
  word_->announce();
  waker_->arm(::xsk_socket__fd(socket_), word_);
}

}  // namespace braid::proxy
