#include "proxy/daemon/client_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace braid::proxy {
namespace {

using ::testing::HasSubstr;

control::Attach request(std::uint32_t endpoints, std::uint32_t send_bytes, std::uint64_t receive_bytes) {
  control::Attach a{};
  a.endpoints = endpoints;
  a.send_bytes = send_bytes;
  a.receive_bytes = receive_bytes;
  return a;
}

// Of 2 proxies, with an endpoint that receives into 64 KiB.
ChannelGeometry small() {
  return channel_geometry(request(1, 64 << 10, 64 << 10), 2).value();
}

// As many views as it is told; counts those that are there.
class CountingRegion final : public SharedRegion {
 public:
  CountingRegion(unsigned views, int& mapped) : left_(views), mapped_(mapped), memory_(1 << 20) {}
  int fd() const override { return -1; }
  std::byte* map() override {
    if (left_ == 0) return nullptr;
    --left_;
    ++mapped_;
    return memory_.data();
  }
  void unmap(std::byte*) override { --mapped_; }
  void isolate(std::byte*) override {}

 private:
  unsigned left_;
  int& mapped_;
  std::vector<std::byte> memory_;
};

TEST(ChannelGeometry, RingsFitTheRequest) {
  const Result<ChannelGeometry> g = channel_geometry(request(3, 512 << 10, 1 << 20), 4);
  ASSERT_TRUE(g.ok());
  EXPECT_EQ(g->endpoints, 3);
  EXPECT_EQ(g->proxies, 4);
  EXPECT_EQ(g->send_descriptors, 4096u) << "one for 128 bytes";
  EXPECT_EQ(g->receive_bytes, 3u << 20);
  EXPECT_EQ(g->arrivals, (1u << 20) / 64) << "one for a granule of the endpoint's windows";
}

TEST(ChannelGeometry, SendRingFitsItsDataAreaUnlessTheConfigurationSaysOtherwise) {
  EXPECT_EQ(channel_geometry(request(1, 64 << 10, 4096), 1)->send_descriptors, 512u);
  EXPECT_EQ(channel_geometry(request(1, 64 << 20, 4096), 1)->send_descriptors, 8192u);
  EXPECT_EQ(channel_geometry(request(1, 64 << 20, 4096), 1, {.send_descriptors = 64})->send_descriptors, 64u);
  EXPECT_EQ(channel_geometry(request(1, 64 << 10, 1 << 20), 1)->arrivals, 16384u);
  EXPECT_EQ(channel_geometry(request(1, 64 << 10, 1 << 20), 1, {.arrival_descriptors = 256})->arrivals, 256u);
}

TEST(ChannelGeometry, RefusalSaysWhatToChange) {
  EXPECT_THAT(channel_geometry(request(1, 64 << 10, 4095), 1).error().text,
              HasSubstr("receive_bytes is 4095: ask for 4 KiB to 1 GiB"));
  EXPECT_FALSE(channel_geometry(request(1, 64 << 10, (1ull << 30) + 1), 1).ok());
  EXPECT_THAT(channel_geometry(request(1, 4096, 4096), 1).error().text, HasSubstr("send_bytes is 4096"));
  EXPECT_FALSE(channel_geometry(request(kMaxEndpoints + 1, 64 << 10, 4096), 1).ok());
  EXPECT_FALSE(channel_geometry(request(1u << 31, 64 << 10, 4096), 1).ok()) << "does not wrap round";
}

TEST(ClientMemory, EveryProxySeesWhatAnotherWrites) {
  const auto memory = ClientMemory::create(small(), 2, make_sealed_region).value();
  ASSERT_NE(memory->view(0), memory->view(1));
  memory->cell(0, 0)->consumed.store(7);
  EXPECT_EQ(memory->cell(0, 1)->consumed.load(), 7u);
  EXPECT_EQ(memory->cell(0)->consumed.load(), 7u) << "the control plane too";
}

TEST(ClientMemory, SealedMemoryIsAllocatedInFullAndKeepsItsSize) {
  const ChannelGeometry g = small();
  const auto memory = ClientMemory::create(g, 1, make_sealed_region).value();
  struct stat status {};
  ASSERT_EQ(::fstat(memory->fd(), &status), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(status.st_size), g.total_bytes());
  EXPECT_GE(static_cast<std::uint64_t>(status.st_blocks) * 512, g.total_bytes());
  EXPECT_EQ(::ftruncate(memory->fd(), 4096), -1);
}

TEST(ClientMemory, WritesOfAnIsolatedProxyAreNotSeen) {  // FO-5
  const auto memory = ClientMemory::create(small(), 2, make_sealed_region).value();
  memory->cell(1)->consumed.store(1);
  std::byte* const old = memory->view(0);
  PortCell* const its = memory->cell(1, 0);
  const RegionView kept = memory->isolate(0);
  EXPECT_EQ(kept.begin(), old) << "its thread may be in the middle of a copy";
  EXPECT_EQ(memory->view(0), nullptr);
  EXPECT_EQ(its->consumed.load(), 1u) << "what stood there is there";
  its->consumed.store(99);
  EXPECT_EQ(memory->cell(1)->consumed.load(), 1u);
  EXPECT_EQ(memory->cell(1, 1)->consumed.load(), 1u);

  ASSERT_TRUE(memory->map(0));
  std::byte* const again = memory->view(0);
  EXPECT_NE(again, old);
  ASSERT_TRUE(memory->map(0));
  EXPECT_EQ(memory->view(0), again) << "it has one";
  memory->cell(1, 0)->consumed.store(2);
  EXPECT_EQ(memory->cell(1, 1)->consumed.load(), 2u);
}

TEST(ClientMemory, IsolatedViewOutlivesTheClient) {  // FO-5
  auto memory = ClientMemory::create(small(), 1, make_sealed_region).value();
  PortCell* const its = memory->cell(0, 0);
  const RegionView kept = memory->isolate(0);
  memory.reset();
  its->consumed.store(5);
  EXPECT_EQ(its->consumed.load(), 5u);
}

TEST(ClientMemory, PlainMemoryCostsWhatIsUsed) {
  const auto bytes_used = [] {
    long pages = 0, resident = 0;
    FILE* const file = std::fopen("/proc/self/statm", "r");
    EXPECT_EQ(std::fscanf(file, "%ld %ld", &pages, &resident), 2);
    std::fclose(file);
    return resident * ::sysconf(_SC_PAGESIZE);
  };
  const ChannelGeometry g = channel_geometry(request(4, 16 << 20, 256 << 20), 4).value();
  ASSERT_GT(g.total_bytes(), 1ull << 30);
  const long before = bytes_used();
  const auto memory = ClientMemory::create(g, 4, make_plain_region).value();
  EXPECT_EQ(memory->fd(), -1);
  EXPECT_EQ(memory->address(), memory->view(3)) << "all of this process";
  memory->cell(0, 3)->consumed.store(7);
  EXPECT_EQ(memory->cell(0)->consumed.load(), 7u);
  EXPECT_LT(bytes_used() - before, 16 << 20);
}

TEST(ClientMemory, WithoutAViewForEachProxyThereIsNone) {
  int mapped = 0;
  const MakeRegion three = [&](std::uint64_t) -> Result<std::unique_ptr<SharedRegion>> {
    return std::unique_ptr<SharedRegion>(std::make_unique<CountingRegion>(3, mapped));
  };
  EXPECT_THAT(ClientMemory::create(small(), 3, three).error().text, HasSubstr("for proxy 2"));
  EXPECT_EQ(mapped, 0) << "those that it had are given back";
  {
    const auto memory = ClientMemory::create(small(), 2, three).value();
    EXPECT_EQ(mapped, 3);
    (void)memory->isolate(1);
    EXPECT_EQ(mapped, 2);
    EXPECT_FALSE(memory->map(1)) << "the system has no more";
  }
  EXPECT_EQ(mapped, 0);
}

}  // namespace
}  // namespace braid::proxy
