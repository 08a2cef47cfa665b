// Who runs where, on hosts that hwloc makes up: a core each, clusters together, proxies near their NICs, what is not free left
// alone, and nothing bound where there is not enough.
#include "tools/braid/run/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>

#include "base/json.h"
#include "base/processors.h"
#include "tests/base/temporary_folder.h"
#include "tools/braid/run/core_claims.h"
#include "tools/braid/run/host_cores.h"
#include "tools/braid/run/place_here.h"
#include "tools/braid/run/plan.h"
#include "tools/braid/run/topology.h"

namespace braid::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Numbers = std::vector<unsigned>;

// Two packages with a memory and a last cache each, of four cores with two processors: core k has 2k and 2k + 1.
constexpr const char* kTwoPackages = "pack:2 numa:1 l3:1 core:4 pu:2";

HostProcessors host_of(const std::string& synthetic, const Numbers& usable = {}) {
  Result<HostProcessors> host = read_topology(usable, {}, {.synthetic = synthetic});
  if (!host) ADD_FAILURE() << host.error().text;
  return host ? *host : HostProcessors{};
}

std::vector<ClusterNeeds> equal_clusters(unsigned count, unsigned proxies, unsigned nodes,
                                         const std::vector<std::string>& interfaces = {}) {
  std::vector<ClusterNeeds> all;
  for (unsigned k = 0; k < count; ++k) all.push_back({k, proxies, nodes, interfaces});
  return all;
}

std::set<unsigned> packages_of(const HostProcessors& host, const Numbers& processors) {
  std::set<unsigned> all;
  for (const Processor& p : host.usable)
    for (const unsigned number : processors)
      if (p.number == number) all.insert(p.package);
  return all;
}

TEST(Topology, TellsWhatProcessorsShare) {
  const HostProcessors host = host_of("pack:2 numa:1 l3:2 core:2 pu:2");
  ASSERT_EQ(host.usable.size(), 16u);
  const Processor& p = host.usable[5];
  EXPECT_EQ(p.number, 5u);
  EXPECT_EQ(p.core, 4u);
  EXPECT_EQ(p.cache, 1u);
  EXPECT_EQ(p.numa, 0u);
  EXPECT_EQ(p.package, 0u);
  EXPECT_EQ(host.usable[15].package, 1u);
  EXPECT_EQ(host.usable[15].numa, 1u);
  EXPECT_EQ(host.usable[15].cache, 3u);
  EXPECT_FALSE(host.quota.has_value());
}

TEST(Topology, AMaskLeavesOthersOutAndCoresKeepTheirNumbers) {
  const HostProcessors host = host_of(kTwoPackages, {3, 9});
  ASSERT_EQ(host.usable.size(), 2u);
  EXPECT_EQ(host.usable[0].number, 3u);
  EXPECT_EQ(host.usable[0].core, 2u) << "processor 2 is its sibling, which is not usable";
  EXPECT_EQ(host.usable[1].number, 9u);
  EXPECT_EQ(host.usable[1].core, 8u);
}

TEST(Topology, AnImpossibleOneIsNamed) {
  const Result<HostProcessors> host = read_topology({}, {}, {.synthetic = "nonsense"});
  ASSERT_FALSE(host.ok());
  EXPECT_THAT(host.error().text, HasSubstr("nonsense"));
  EXPECT_THAT(host.error().text, HasSubstr("--bind none"));
}

TEST(Topology, ThisHostHasWhatThisProcessMayUse) {
  const Result<HostProcessors> host = own_processors({});
  ASSERT_TRUE(host.ok()) << host.error().text;
  Numbers numbers;
  for (const Processor& p : host->usable) numbers.push_back(p.number);
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, processors_of_this_thread());
}

TEST(Placement, EachThreadHasACoreAndSiblingsStayFree) {
  const Placement p = place(host_of("pack:1 core:4 pu:2"), equal_clusters(1, 1, 3), {});
  EXPECT_EQ(p.why_not, "");
  ASSERT_EQ(p.clusters.size(), 1u);
  EXPECT_EQ(p.clusters[0].cluster, 0u);
  EXPECT_THAT(p.clusters[0].proxies, ElementsAre(0));
  EXPECT_THAT(p.clusters[0].nodes, ElementsAre(2, 4, 6)) << "1, 3, 5 and 7 are siblings";
}

TEST(Placement, ClustersHaveAPackageEach) {
  // Even where both have room in one.
  const Placement p = place(host_of(kTwoPackages), equal_clusters(2, 1, 1), {});
  EXPECT_THAT(p.clusters, ElementsAre(PlacedCluster{0, {0}, {2}}, PlacedCluster{1, {8}, {10}}));
}

TEST(Placement, AClusterThatFitsACacheIsNotSpreadOverTwo) {
  // Four caches with two cores each, in two memories.
  const HostProcessors host = host_of("numa:2 l3:2 core:2 pu:1");
  EXPECT_THAT(place(host, equal_clusters(2, 1, 1), {}).clusters,
              ElementsAre(PlacedCluster{0, {0}, {1}}, PlacedCluster{1, {2}, {3}}));
  // Core 0 is not free, so its cache has one core only.
  EXPECT_THAT(place(host, equal_clusters(1, 1, 1), {0}).clusters, ElementsAre(PlacedCluster{0, {2}, {3}}));
  // Four threads have a memory in common where no cache has room for them.
  EXPECT_THAT(place(host, equal_clusters(1, 1, 3), {0}).clusters,
              ElementsAre(PlacedCluster{0, {4}, {5, 6, 7}}));
}

TEST(Placement, AClusterThatIsTooLargeForAPackageFillsOneFirst) {
  const HostProcessors host = host_of(kTwoPackages);
  const Placement p = place(host, equal_clusters(1, 2, 4), {});
  ASSERT_EQ(p.clusters.size(), 1u);
  EXPECT_THAT(p.clusters[0].proxies, ElementsAre(0, 2));
  EXPECT_THAT(p.clusters[0].nodes, ElementsAre(4, 6, 8, 10));
}

TEST(Placement, AMaskOfAnyShape) {
  // Both siblings of core 0, one of core 2, one of core 8: three cores.
  const HostProcessors host = host_of(kTwoPackages, {0, 1, 5, 9});
  EXPECT_THAT(place(host, equal_clusters(1, 1, 2), {}).clusters, ElementsAre(PlacedCluster{0, {0}, {5, 9}}));
  EXPECT_THAT(place(host, equal_clusters(1, 1, 3), {}).clusters, IsEmpty());
}

TEST(Placement, TooFewCoresBindNothingAndSayIt) {
  const Placement p = place(host_of("pack:1 core:2 pu:2"), equal_clusters(2, 1, 2), {});
  EXPECT_THAT(p.clusters, IsEmpty());
  EXPECT_THAT(
      p.why_not,
      HasSubstr("6 threads (2 clusters of 2 compute nodes and 1 proxy) want a core each, and there are 2:"));
  EXPECT_THAT(p.why_not, HasSubstr("--compute"));
  EXPECT_THAT(p.why_not, HasSubstr("--bind none"));
}

TEST(Placement, TheQuotaLimitsWholeCores) {
  HostProcessors host = host_of("pack:1 core:8 pu:1");
  host.quota = 2.9;
  EXPECT_EQ(place(host, equal_clusters(1, 1, 1), {}).clusters.size(), 1u);
  const Placement p = place(host, equal_clusters(1, 1, 2), {});
  EXPECT_THAT(p.clusters, IsEmpty());
  EXPECT_THAT(p.why_not, HasSubstr("there are 8, and the cgroup's quota is 2.9"));
}

TEST(Placement, CoresOfOtherRunsAreLeftAlone) {
  const HostProcessors host = host_of("pack:1 core:4 pu:2");
  EXPECT_THAT(place(host, equal_clusters(1, 1, 1), {0, 4}).clusters, ElementsAre(PlacedCluster{0, {2}, {6}}));
  const Placement p = place(host, equal_clusters(1, 1, 2), {0, 4});
  EXPECT_THAT(p.clusters, IsEmpty());
  EXPECT_THAT(p.why_not, HasSubstr("there are 4, of which other runs have 2"));
}

// hwloc's XML of two packages of four cores, with a NIC at the second one.
class NearANic : public testing::Test {
 protected:
  void SetUp() override {
    const auto set = [](unsigned first, unsigned count) {
      char text[32];
      std::snprintf(text, sizeof text, "0x%08x", ((1u << count) - 1) << first);
      return std::string(text);
    };
    std::string text =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n"
        "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x000000ff\" complete_cpuset=\"0x000000ff\" allowed_cpuset=\"0x000000ff\" "
        "nodeset=\"0x00000003\" complete_nodeset=\"0x00000003\" allowed_nodeset=\"0x00000003\" gp_index=\"1\">\n";
    unsigned index = 2;
    const auto object = [&](const std::string& type, unsigned number, const std::string& cpus, unsigned node,
                            const std::string& more) {
      const std::string nodes = node == 0 ? "0x00000001" : "0x00000002";
      text += "<object type=\"" + type + "\" os_index=\"" + std::to_string(number) + "\" cpuset=\"" + cpus +
              "\" complete_cpuset=\"" + cpus + "\" nodeset=\"" + nodes + "\" complete_nodeset=\"" + nodes +
              "\" gp_index=\"" + std::to_string(index++) + "\"" + more;
    };
    for (unsigned package = 0; package < 2; ++package) {
      object("Package", package, set(4 * package, 4), package, ">\n");
      object("NUMANode", package, set(4 * package, 4), package, " local_memory=\"1073741824\"/>\n");
      for (unsigned core = 4 * package; core < 4 * package + 4; ++core) {
        object("Core", core, set(core, 1), package, ">\n");
        object("PU", core, set(core, 1), package, "/>\n</object>\n");
      }
      if (package == 1) {
        text +=
            "<object type=\"Bridge\" gp_index=\"90\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[80-81]\">\n"
            "<object type=\"PCIDev\" gp_index=\"91\" pci_busid=\"0000:81:00.0\" pci_type=\"0200 [8086:1572] [8086:0000] 01\" "
            "pci_link_speed=\"0.000000\">\n"
            "<object type=\"OSDev\" gp_index=\"92\" name=\"ens1\" osdev_type=\"2\"/>\n</object>\n</object>\n";
      }
      text += "</object>\n";
    }
    text += "</object>\n</topology>\n";
    const TemporaryFolder folder;
    const std::string path = folder / "topology.xml";
    std::ofstream(path) << text;
    Result<HostProcessors> host = read_topology({}, {"ens1", "ens9"}, {.xml = path});
    ASSERT_TRUE(host.ok()) << host.error().text;
    host_ = *host;
  }

  HostProcessors host_;
};

TEST_F(NearANic, ItsProcessorsAreKnown) {
  EXPECT_THAT(host_.near["ens1"], ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(host_.near["ens9"], IsEmpty()) << "there is no such interface";
}

TEST_F(NearANic, AClusterGoesWhereItIs) {
  EXPECT_THAT(place(host_, equal_clusters(1, 1, 2, {"ens1"}), {}).clusters,
              ElementsAre(PlacedCluster{0, {4}, {5, 6}}));
  EXPECT_THAT(place(host_, equal_clusters(1, 1, 2, {"ens9"}), {}).clusters,
              ElementsAre(PlacedCluster{0, {0}, {1, 2}}));
}

TEST_F(NearANic, ProxiesOfAllClustersComeBeforeComputeNodes) {
  const Placement p = place(host_, equal_clusters(2, 1, 3, {"ens1"}), {});
  ASSERT_EQ(p.clusters.size(), 2u);
  EXPECT_THAT(p.clusters[0].proxies, ElementsAre(4));
  EXPECT_THAT(p.clusters[1].proxies, ElementsAre(5));
  EXPECT_EQ(packages_of(host_, p.clusters[0].nodes), std::set<unsigned>{0}) << "which three have in common";
}

TEST_F(NearANic, ProxiesThatFindNoneThereRunElsewhere) {
  const Placement p = place(host_, equal_clusters(1, 3, 1, {"ens1"}), {4, 5, 6});
  EXPECT_THAT(p.clusters, ElementsAre(PlacedCluster{0, {7, 0, 1}, {2}}));
}

TEST_F(NearANic, EachProxyIsNearItsOwn) {
  const Placement p = place(host_, equal_clusters(1, 2, 1, {"ens1", "ens9"}), {});
  ASSERT_EQ(p.clusters.size(), 1u);
  EXPECT_EQ(p.clusters[0].proxies[0], 4u);
  EXPECT_EQ(packages_of(host_, p.clusters[0].nodes), std::set<unsigned>{1}) << "with the proxies";
}

TEST(Placement, NeedsOfPlansNameInterfaces) {
  settings::RunConfig config;
  config.clusters = 1;
  config.proxies = 2;
  config.compute = 3;
  config.wire = settings::Wire::kDpdk;
  config.dpdk.kind = settings::DpdkKind::kAfPacket;
  config.dpdk.interfaces.emplace_back();
  config.dpdk.interfaces[0].interface = "ens1";
  config.dpdk.interfaces[0].address = "10.0.0.1";
  const std::vector<ClusterNeeds> needs = needs_of(config, plan_nodes(config, "run", 4));
  ASSERT_EQ(needs.size(), 1u);
  EXPECT_EQ(needs[0].proxies, 2u);
  EXPECT_EQ(needs[0].nodes, 3u);
  EXPECT_THAT(needs[0].interfaces, ElementsAre("ens1"));
  settings::RunConfig sockets;
  sockets.wire = settings::Wire::kUdp;
  const Host here{.name = "a", .addresses = {"127.0.0.1"}, .first_cluster = 0, .clusters = 1};
  EXPECT_THAT(needs_of(sockets, plan_nodes_of_hosts(sockets, "run", {here})).at(0).interfaces,
              ElementsAre("lo"));
}

std::vector<ClusterNeeds> confined(std::vector<std::pair<Numbers, unsigned>> clusters) {
  std::vector<ClusterNeeds> all;
  for (auto& [processors, nodes] : clusters)
    all.push_back({static_cast<unsigned>(all.size()), 1, nodes, {}, std::move(processors)});
  return all;
}

TEST(Placement, AClusterHasOnlyTheCoresThatItsHostNames) {
  // Core 8 has processors 8 and 9, of which 9 is named.
  const Placement p = place(host_of(kTwoPackages), confined({{{9, 12, 13}, 1}}), {});
  EXPECT_EQ(p.why_not, "");
  EXPECT_THAT(p.clusters, ElementsAre(PlacedCluster{0, {9}, {12}}));
}

TEST(Placement, ClustersOfOneMachineWithCoresOfTheirOwnDoNotMeet) {
  // The first has a choice, the second has none, and the third gets what nobody names.
  const Placement p =
      place(host_of("pack:1 core:8 pu:1"), confined({{{0, 1, 2, 3}, 1}, {{0, 1}, 1}, {{}, 1}}), {});
  EXPECT_EQ(p.why_not, "");
  EXPECT_THAT(p.clusters,
              testing::UnorderedElementsAre(PlacedCluster{0, {2}, {3}}, PlacedCluster{1, {0}, {1}},
                                            PlacedCluster{2, {4}, {5}}));
}

TEST(Placement, ClustersWithTooFewCoresOfTheirOwnAreLeftAndTheOthersArePlaced) {
  const Placement p = place(host_of("pack:1 core:4 pu:1"), confined({{{0, 1}, 2}, {{}, 1}}), {});
  EXPECT_THAT(p.clusters, ElementsAre(PlacedCluster{1, {2}, {3}})) << "away from those that roam on 0 and 1";
  EXPECT_THAT(
      p.why_not,
      HasSubstr(
          "3 threads (1 cluster of 2 compute nodes and 1 proxy) want a core each, and there are 2 (of 0-1)"));
  const Placement other = place(host_of("pack:1 core:4 pu:1"), confined({{{0, 1}, 1}, {{}, 2}}), {});
  EXPECT_THAT(other.clusters, ElementsAre(PlacedCluster{0, {0}, {1}}));
  EXPECT_THAT(other.why_not, HasSubstr("there are 4, of which other hosts of the host file have 2"));
}

TEST(Placement, AQuotaIsSharedByClustersWithCoresOfTheirOwn) {
  HostProcessors host = host_of("pack:1 core:4 pu:1");
  host.quota = 3.0;
  const Placement p = place(host, confined({{{0, 1}, 1}, {{2, 3}, 1}}), {});
  EXPECT_THAT(p.clusters, ElementsAre(PlacedCluster{0, {0}, {1}}));
  EXPECT_THAT(p.why_not, HasSubstr("the cgroup's quota is 1.0"));
}

TEST(Placement, NeedsHaveTheCoresOfTheirHost) {
  settings::RunConfig config;
  config.wire = settings::Wire::kUdp;
  config.clusters = 2;
  const std::vector<Host> hosts = {
      {.name = "a", .addresses = {"127.0.0.1"}, .cores = {2, 3}, .first_cluster = 0, .clusters = 1},
      {.name = "b", .addresses = {"127.0.0.2"}, .first_cluster = 1, .clusters = 1}};
  const std::vector<ClusterNeeds> needs = needs_of(config, plan_nodes_of_hosts(config, "run", hosts), hosts);
  ASSERT_EQ(needs.size(), 2u);
  EXPECT_THAT(needs[0].processors, ElementsAre(2, 3));
  EXPECT_THAT(needs[1].processors, IsEmpty());
}

TEST(HostCores, ThoseThatTheMaskForbidsAreLeftOut) {
  const Result<HostCores> cores =
      usable_cores_of(Numbers{0, 1, 2, 8}, Numbers{1, 2, 3}, Numbers{0, 1, 2, 3, 8});
  ASSERT_TRUE(cores.ok()) << cores.error().text;
  EXPECT_THAT(cores->usable, ElementsAre(1, 2));
  EXPECT_THAT(cores->refused, ElementsAre(0, 8));
}

TEST(HostCores, ThoseThatTheHostLacksAreRefused) {
  const Result<HostCores> cores = usable_cores_of(Numbers{0, 1, 2, 8}, Numbers{0, 1}, Numbers{0, 1});
  ASSERT_FALSE(cores.ok());
  EXPECT_THAT(cores.error().text, HasSubstr("cores 0-2,8: the host has no core 2,8, it has 0-1"));
  // Where the kernel does not tell what there is, the mask does.
  EXPECT_THAT(usable_cores_of(Numbers{0, 8}, Numbers{0, 1}, {})->refused, ElementsAre(8));
}

TEST(HostCores, NoneOfThemIsRefused) {
  const Result<HostCores> cores = usable_cores_of(Numbers{2, 3}, Numbers{0, 1}, Numbers{0, 1, 2, 3});
  ASSERT_FALSE(cores.ok());
  EXPECT_THAT(cores.error().text, HasSubstr("cores 2-3: the run may use none of them here, but 0-1"));
}

TEST(Placement, BindNoneBindsNothingAndComplainsOfNothing) {
  settings::RunConfig config;
  config.bind = settings::Bind::kNone;
  CoreClaims claims;
  const Placement p = place_here(config, plan_nodes(config, "run", 1), claims);
  EXPECT_THAT(p.clusters, IsEmpty());
  EXPECT_EQ(p.why_not, "");
}

TEST(Placement, IsDrawnCoreByCore) {
  HostProcessors host = host_of(kTwoPackages, {0, 1, 2, 8, 9});
  host.quota = 3.5;
  const std::string text = draw(host, place(host, equal_clusters(1, 1, 1), {8}), {8});
  EXPECT_EQ(text,
            "package  NUMA  cache  core  processors  who\n"
            "      0     0      0     0  0,1         proxy 0 of cluster 0 (processor 0)\n"
            "      0     0      0     2  2           compute node 0 of cluster 0 (processor 2)\n"
            "      1     1      1     8  8,9         another run\n"
            "The cgroup's quota: 3.5 processors.\n");
}

TEST(Placement, TravelsAsJson) {
  const PlacedCluster placed{3, {0, 2}, {4}};
  EXPECT_EQ(nlohmann::json(placed).get<PlacedCluster>(), placed);
  EXPECT_THROW((void)nlohmann::json({{"cluster", "x"}}).get<PlacedCluster>(), nlohmann::json::exception);
}

// Numbers that no core of this machine has, or other runs would be in the way.
HostProcessors unreal_host() {
  HostProcessors host = host_of("pack:1 core:4 pu:1");
  for (Processor& p : host.usable) p.number = p.core = p.number + 5000;
  return host;
}

TEST(CoreClaims, ASecondRunGetsOtherCoresAndThenNone) {
  const HostProcessors host = unreal_host();
  EXPECT_THAT(CoreClaims::taken(host), IsEmpty());
  CoreClaims first;
  EXPECT_THAT(first.place(host, equal_clusters(1, 1, 1)).clusters,
              ElementsAre(PlacedCluster{0, {5000}, {5001}}));
  EXPECT_THAT(CoreClaims::taken(host), ElementsAre(5000, 5001));
  {
    CoreClaims second;
    EXPECT_THAT(second.place(host, equal_clusters(1, 1, 1)).clusters,
                ElementsAre(PlacedCluster{0, {5002}, {5003}}));
    CoreClaims third;
    const Placement none = third.place(host, equal_clusters(1, 1, 1));
    EXPECT_THAT(none.clusters, IsEmpty());
    EXPECT_THAT(none.why_not, HasSubstr("of which other runs have 4"));
  }
  EXPECT_THAT(CoreClaims::taken(host), ElementsAre(5000, 5001)) << "the second run has ended";
}

TEST(CoreClaims, WhatIsRefusedIsNotHeld) {
  const HostProcessors host = unreal_host();
  CoreClaims first;
  EXPECT_THAT(first.place(host, equal_clusters(1, 1, 4)).why_not, Not(IsEmpty()));
  EXPECT_THAT(CoreClaims::taken(host), IsEmpty());
}

// A socket that is connected, here to itself, refuses those who look, and its name is not free.
TEST(CoreClaims, ACoreThatIsTakenAfterTheLookIsLeftOutAndTheOthersAreKept) {
  const HostProcessors host = unreal_host();
  const Descriptor other(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  constexpr std::string_view kName = "braid-core-5001";
  kName.copy(name.sun_path + 1, kName.size());
  const auto* const address = reinterpret_cast<const sockaddr*>(&name);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + kName.size());
  ASSERT_EQ(::bind(other.get(), address, length), 0);
  ASSERT_EQ(::connect(other.get(), address, length), 0);
  EXPECT_THAT(CoreClaims::taken(host), IsEmpty());
  CoreClaims claims;
  EXPECT_THAT(claims.place(host, equal_clusters(1, 1, 1)).clusters,
              ElementsAre(PlacedCluster{0, {5000}, {5002}}));
  EXPECT_THAT(CoreClaims::taken(host), ElementsAre(5000, 5002)) << "5001 refuses, still";
}

// Without descriptors nobody is asked, and nobody is kept from anything.
TEST(CoreClaims, WithoutASocketAllIsFree) {
  const HostProcessors host = unreal_host();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  CoreClaims claims;
  const Placement p = claims.place(host, equal_clusters(1, 1, 1));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(p.clusters.size(), 1u);
}

}  // namespace
}  // namespace braid::cli
