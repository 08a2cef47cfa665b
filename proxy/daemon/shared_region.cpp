#include "proxy/daemon/shared_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"
#include "base/memory_file.h"
#include "base/system_error.h"

namespace braid::proxy {
namespace {

class SealedRegion final : public SharedRegion {
 public:
  SealedRegion(int fd, std::uint64_t bytes) : fd_(fd), bytes_(bytes) {}
  ~SealedRegion() override { ::close(fd_); }

  int fd() const override { return fd_; }
  std::byte* map() override {
    void* const view = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    return view == MAP_FAILED ? nullptr : static_cast<std::byte*>(view);
  }
  void unmap(std::byte* view) override { ::munmap(view, bytes_); }
  void isolate(std::byte* view) override {
    CHECK(::mmap(view, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd_, 0) != MAP_FAILED);
  }

 private:
  const int fd_;
  const std::uint64_t bytes_;
};

class PlainRegion final : public SharedRegion {
 public:
  PlainRegion(std::byte* begin, std::uint64_t bytes) : begin_(begin), bytes_(bytes) {}
  ~PlainRegion() override { ::munmap(begin_, bytes_); }

  int fd() const override { return -1; }
  std::byte* map() override { return begin_; }
  void unmap(std::byte*) override {}
  void isolate(std::byte*) override {}

 private:
  std::byte* const begin_;
  const std::uint64_t bytes_;
};

}  // namespace

Result<std::unique_ptr<SharedRegion>> make_sealed_region(std::uint64_t bytes) {
  const Result<int> fd = make_memory_file("braid-client", bytes, MemoryFile::kAllocated,
                                          F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  if (!fd) return fd.error();
  return std::unique_ptr<SharedRegion>(std::make_unique<SealedRegion>(*fd, bytes));
}

Result<std::unique_ptr<SharedRegion>> make_plain_region(std::uint64_t bytes) {
  void* const begin =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED)
    return error("cannot map {} bytes for the channels: {}", bytes, cause_and_cure(errno));
  return std::unique_ptr<SharedRegion>(std::make_unique<PlainRegion>(static_cast<std::byte*>(begin), bytes));
}

}  // namespace braid::proxy
