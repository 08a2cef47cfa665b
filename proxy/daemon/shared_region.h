// Memory that a client shares with the control plane and the proxies of its node: where it comes from, and the
// views of it. Each proxy has a view of its own, so that one of them can be cut off alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/result.h"

namespace braid::proxy {

// Filled with zeros at first.
class SharedRegion {
 public:
  SharedRegion() = default;
  virtual ~SharedRegion() = default;
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  // The descriptor that the client maps, owned by the region; -1: none, the client is in this process.
  virtual int fd() const = 0;
  // The beginning of one more view. nullptr: the system has no more.
  [[nodiscard]] virtual std::byte* map() = 0;
  virtual void unmap(std::byte* view) = 0;
  // From now on what is written through that view reaches no other, and what is read there is what stood there
  // or what was written through it.
  virtual void isolate(std::byte* view) = 0;
};

// Makes a region of so many bytes.
using MakeRegion = std::function<Result<std::unique_ptr<SharedRegion>>(std::uint64_t bytes)>;

// For clients of other processes: a memfd, allocated in full (a page that could not be had later would be a
// SIGBUS in a proxy) and sealed (a client that shrinks it could cause one too).
Result<std::unique_ptr<SharedRegion>> make_sealed_region(std::uint64_t bytes);

// For simulation: plain memory of this process that costs what is used of it. All views are the same, and
// isolate() does nothing: a simulated proxy never stalls in the middle of a turn, and drops all that it
// has before the next (FO-6).
Result<std::unique_ptr<SharedRegion>> make_plain_region(std::uint64_t bytes);

// One view, as long as this lives.
class RegionView {
 public:
  RegionView() = default;
  // Empty if there are no more.
  explicit RegionView(std::shared_ptr<SharedRegion> region)
      : region_(std::move(region)), begin_(region_->map()) {}
  ~RegionView() { reset(); }
  RegionView(RegionView&& other) noexcept
      : region_(std::move(other.region_)), begin_(std::exchange(other.begin_, nullptr)) {}
  RegionView& operator=(RegionView&& other) noexcept {
    if (this == &other) return *this;
    reset();
    region_ = std::move(other.region_);
    begin_ = std::exchange(other.begin_, nullptr);
    return *this;
  }

  // nullptr: empty.
  std::byte* begin() const { return begin_; }
  void isolate() { region_->isolate(begin_); }

 private:
  void reset() {
    if (begin_ != nullptr) region_->unmap(std::exchange(begin_, nullptr));
  }

  std::shared_ptr<SharedRegion> region_;
  std::byte* begin_ = nullptr;
};

}  // namespace braid::proxy
