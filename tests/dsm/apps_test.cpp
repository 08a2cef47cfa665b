// The programs of apps/, run as a user runs them, without a service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/program.h"
#include "apps/common/sum.h"
#include "apps/unstructured/mesh.h"

namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

struct Outcome {
  int status;
  std::string text;  // standard output and error
};

Outcome run(const std::string& command) {
  Outcome result{-1, {}};
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  std::array<char, 4096> buffer;
  std::size_t n = 0;
  while ((n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) result.text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  return result;
}

TEST(Jacobi, RunsOnOneClusterAndIsVerified) {
  for (const char* compute : {"1", "3"}) {
    const Outcome r =
        run(std::string("BRAID_COMPUTE=") + compute + " " BRAID_JACOBI " --size 200 --iterations 5");
    EXPECT_EQ(r.status, 0) << r.text;
    EXPECT_THAT(r.text,
                MatchesRegex("jacobi: 200 x 200, 5 iterations, . compute nodes: 0\\.[0-9]* s, verified\n"));
    EXPECT_THAT(r.text, HasSubstr(std::string(compute) + " compute nodes"));
  }
}

TEST(Matmul, RunsOnOneClusterAndIsVerified) {
  for (const char* compute : {"1", "3"}) {
    const Outcome r = run(std::string("BRAID_COMPUTE=") + compute + " " BRAID_MATMUL " --size 100");
    EXPECT_EQ(r.status, 0) << r.text;
    EXPECT_THAT(r.text, MatchesRegex("matmul: 100 x 100, . compute nodes: 0\\.[0-9]* s, verified\n"));
  }
}

TEST(Gauss, RunsOnOneClusterAndIsVerified) {
  for (const char* compute : {"1", "3"}) {
    for (const char* size : {"1", "2", "100"}) {  // fewer rows than compute nodes, too
      for (const char* reductions : {"one", "two"}) {
        const Outcome r = run(std::string("BRAID_COMPUTE=") + compute + " " BRAID_GAUSS " --size " + size +
                              " --reductions " + reductions);
        EXPECT_EQ(r.status, 0) << r.text;
        EXPECT_THAT(r.text, MatchesRegex(std::string("gauss: ") + size + " x " + size + ", " + compute +
                                         " compute nodes: 0\\.[0-9]* s, verified\n"));
      }
    }
  }
}

TEST(Barnes, RunsOnOneClusterAndIsVerified) {
  for (const char* compute : {"1", "3"}) {
    // The paper's bodies; fewer bodies than compute nodes; no cell that counts as one body.
    for (const char* bodies :
         {"", " --bodies 2", " --bodies 200 --opening 0 --seed 3", " --bodies 5 --iterations 9"}) {
      const Outcome r = run(std::string("BRAID_COMPUTE=") + compute + " " BRAID_BARNES + bodies);
      EXPECT_EQ(r.status, 0) << r.text;
      EXPECT_THAT(r.text, MatchesRegex(std::string("barnes: [0-9]* bodies, . iterations, ") + compute +
                                       " compute nodes, error [-.0-9e]*: [0-9]*\\.[0-9]* s, verified\n"));
    }
  }
}

double error_of_barnes(const char* opening) {
  const Outcome r = run(std::string(BRAID_BARNES " --bodies 500 --iterations 1 --opening ") + opening);
  const std::size_t at = r.text.find("error ");
  EXPECT_NE(at, std::string::npos) << r.text;
  return at == std::string::npos ? 0 : std::stod(r.text.substr(at + 6));
}

// With an opening of 0 every force is a sum over all bodies; a cell that counts as one body errs by about opening^2.
TEST(Barnes, ErrorFallsWithTheOpening) {
  const double wide = error_of_barnes("1"), narrow = error_of_barnes("0.3");
  EXPECT_LT(narrow, wide / 4);
  EXPECT_GT(narrow, 1e-6);
  EXPECT_LT(error_of_barnes("0"), 1e-12);
}

TEST(Fft, RunsOnOneClusterAndIsVerified) {
  for (const char* compute : {"1", "3"}) {
    for (const char* points : {"4", "8", "16", "32768"}) {  // fewer rows than compute nodes; squares and not
      const Outcome r = run(std::string("BRAID_COMPUTE=") + compute + " " BRAID_FFT " --points " + points);
      EXPECT_EQ(r.status, 0) << r.text;
      EXPECT_THAT(r.text, MatchesRegex(std::string("fft: ") + points + " points, " + compute +
                                       " compute nodes: 0\\.[0-9]* s, verified\n"));
    }
  }
}

TEST(Fft, ResultDoesNotDependOnWhereNodesBegin) {
  for (const char* points : {"4", "8", "32768"}) {
    const Outcome r = run(std::string("BRAID_COMPUTE=3 " BRAID_FFT " --begin across --points ") + points);
    EXPECT_EQ(r.status, 0) << r.text;
    EXPECT_THAT(r.text, HasSubstr(", verified\n"));
  }
}

TEST(Fft, RefusesANumberOfPointsThatIsNoPowerOfTwo) {
  const Outcome r = run(BRAID_FFT " --points 1000");
  EXPECT_EQ(r.status, 2);
  EXPECT_THAT(r.text, HasSubstr("--points: 1000 is not a power of two"));
}

TEST(Tsp, RunsOnOneClusterAndIsVerified) {
  for (const char* compute : {"1", "3"}) {
    for (const char* arguments :
         {"", " --cities 3", " --cities 11 --seed 2", " --depth 1", " --depth 6", " --queue lock",
          " --queue lock --cities 11 --seed 2", " --queue lock --depth 6"}) {
      const Outcome r = run(std::string("BRAID_COMPUTE=") + compute + " " BRAID_TSP + arguments);
      EXPECT_EQ(r.status, 0) << r.text;
      EXPECT_THAT(r.text, MatchesRegex("tsp: [0-9]* cities, seed ., . compute nodes, tour of [0-9]*, [0-9]* "
                                       "parts: 0\\.[0-9]* s, verified\n"));
    }
  }
}

// The list has what the heap has, in the same order.
TEST(Tsp, QueuesSearchTheSameBeginnings) {
  for (const char* arguments : {" --optimal-bound", " --cities 12 --seed 5 --depth 5 --optimal-bound"}) {
    const auto result = [](const std::string& text) { return text.substr(0, text.find(" parts")); };
    const std::string word = run(std::string(BRAID_TSP) + arguments + " --queue word").text;
    EXPECT_THAT(word, HasSubstr(" parts: "));
    EXPECT_EQ(result(word), result(run(std::string(BRAID_TSP) + arguments + " --queue lock").text));
  }
}

TEST(Tsp, SeedsGiveDifferentMaps) {
  const std::string one = run(BRAID_TSP " --seed 1").text;
  const std::string two = run(BRAID_TSP " --seed 2").text;
  const auto tour = [](const std::string& text) { return text.substr(text.find("tour of"), 12); };
  EXPECT_NE(tour(one), tour(two));
}

TEST(Water, RunsOnOneClusterAndIsVerified) {
  for (const char* compute : {"1", "3"}) {
    for (const char* molecules : {"8", "27"}) {  // pairs of an even and of an odd number
      const Outcome r =
          run(std::string("BRAID_COMPUTE=") + compute + " " BRAID_WATER " --molecules " + molecules);
      EXPECT_EQ(r.status, 0) << r.text;
      EXPECT_THAT(r.text, MatchesRegex(std::string("water: ") + molecules + " molecules, 2 iterations, " +
                                       compute + " compute nodes, .*: 0\\.[0-9]* s, verified\n"));
    }
  }
}

// The physics: forces that are not the gradient of the energy, or a wrong coefficient of the corrector, would
// heat or cool the water.
TEST(Water, KeepsItsEnergy) {
  const Outcome r = run(BRAID_WATER " --molecules 64 --iterations 1000");
  ASSERT_EQ(r.status, 0) << r.text;
  const std::size_t at = r.text.find("drift ");
  ASSERT_NE(at, std::string::npos) << r.text;
  EXPECT_LT(std::abs(std::stod(r.text.substr(at + 6))), 2e-6) << r.text;
}

TEST(Unstructured, RunsOnOneClusterAndIsVerified) {
  for (const char* compute : {"1", "3"}) {
    // The paper's mesh; fewer mesh nodes than compute nodes; every pair an edge.
    for (const char* mesh : {"", " --nodes 2 --edges 1", " --nodes 20 --edges 190 --iterations 3"}) {
      const Outcome r = run(std::string("BRAID_COMPUTE=") + compute + " " BRAID_UNSTRUCTURED + mesh);
      EXPECT_EQ(r.status, 0) << r.text;
      EXPECT_THAT(r.text,
                  MatchesRegex(std::string("unstructured: [0-9]* nodes, [0-9]* edges, . iterations, ") +
                               compute + " compute nodes, .*: 0\\.[0-9]* s, verified\n"));
    }
  }
}

// What flows along the edges evens the values out; an unstable step would make the changes grow.
TEST(Unstructured, ChangesBecomeSmaller) {
  const Outcome r = run(BRAID_UNSTRUCTURED " --nodes 300 --edges 1800 --iterations 100");
  ASSERT_EQ(r.status, 0) << r.text;
  double first = 0, last = 0;
  const std::size_t at = r.text.find("change ");
  ASSERT_NE(at, std::string::npos) << r.text;
  ASSERT_EQ(std::sscanf(r.text.c_str() + at, "change %lf to %lf", &first, &last), 2) << r.text;
  EXPECT_GT(first, 0);
  EXPECT_LT(last, first / 10);
}

TEST(Unstructured, RefusesAMeshThatCannotBe) {
  for (const auto& [edges, allowed] : {std::pair{"8", "9 to 45"}, {"46", "9 to 45"}}) {
    const Outcome r = run(std::string(BRAID_UNSTRUCTURED " --nodes 10 --edges ") + edges);
    EXPECT_EQ(r.status, 2);
    EXPECT_THAT(r.text, HasSubstr(std::string("--edges: a mesh of 10 nodes has ") + allowed + " edges, not " +
                                  edges));
  }
}

TEST(Mesh, HasExactlyItsEdgesIsInOnePieceAndLocal) {
  using braid::apps::unstructured::draw_mesh;
  for (const auto& [nodes, edges] :
       {std::pair<std::size_t, std::size_t>{2800, 17377}, {2, 1}, {30, 29}, {12, 66}}) {
    const braid::apps::unstructured::Mesh mesh = draw_mesh(nodes, edges, 7);
    ASSERT_EQ(mesh.edges.size(), edges);
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    std::vector<std::uint32_t> piece(nodes);
    std::iota(piece.begin(), piece.end(), 0u);
    const auto piece_of = [&](std::uint32_t i) {
      while (piece[i] != i) i = piece[i];
      return i;
    };
    for (const auto& edge : mesh.edges) {
      ASSERT_LT(edge.a, edge.b);
      ASSERT_LT(edge.b, nodes);
      pairs.insert({edge.a, edge.b});
      piece[piece_of(edge.a)] = piece_of(edge.b);
    }
    EXPECT_EQ(pairs.size(), edges);
    for (std::uint32_t i = 0; i < nodes; ++i) EXPECT_EQ(piece_of(i), piece_of(0));
    EXPECT_EQ(std::accumulate(mesh.degree.begin(), mesh.degree.end(), std::size_t{0}), 2 * edges);
    if (nodes != 2800) continue;
    // As in a mesh of tetrahedra: edges join neighbours, and no node has very many.
    for (const auto& edge : mesh.edges) EXPECT_LT(edge.length, 2.3);
    EXPECT_LE(*std::max_element(mesh.degree.begin(), mesh.degree.end()), 26u);
    EXPECT_NE(draw_mesh(nodes, edges, 8).edges[0].length, mesh.edges[0].length);
  }
}

TEST(Sum, DoesNotDependOnTheOrder) {
  const std::vector<double> terms = {1e6, -3.14159, 1e-7, 0.1, -1e6, 2.0 / 3};
  braid::apps::Sum forward, backward;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    forward.add(terms[i]);
    backward.add(terms[terms.size() - 1 - i]);
  }
  EXPECT_EQ(forward, backward);
  EXPECT_NEAR(forward.value(), 0.1 + 2.0 / 3 - 3.14159 + 1e-7, 1e-8);
  for (const double term : terms) forward.subtract(braid::apps::Sum::of(term));
  EXPECT_EQ(forward.value(), 0);
  EXPECT_EQ(braid::apps::Sum::of_grid_points(backward.grid_points()), backward);
}

TEST(Programs, RefuseBadArgumentsWithStatusTwo) {
  struct Program {
    std::string path, size;
  };
  for (const auto& [program, option] :
       {Program{BRAID_GAUSS, "--size"}, Program{BRAID_JACOBI, "--size"}, Program{BRAID_MATMUL, "--size"},
        Program{BRAID_TSP, "--cities"}, Program{BRAID_WATER, "--molecules"}, Program{BRAID_FFT, "--points"},
        Program{BRAID_BARNES, "--bodies"}, Program{BRAID_UNSTRUCTURED, "--nodes"}}) {
    const Outcome size = run(program + " " + option + " 0");
    EXPECT_EQ(size.status, 2);
    EXPECT_THAT(size.text, HasSubstr(option));
    const Outcome unknown = run(program + " --sise 10");
    EXPECT_EQ(unknown.status, 2);
    EXPECT_THAT(unknown.text, HasSubstr("--sise"));
    EXPECT_EQ(run(program + " --help").status, 0);
  }
}

TEST(Programs, RefuseABadEnvironmentByName) {
  const Outcome r = run("BRAID_COMPUTE=many " BRAID_JACOBI);
  EXPECT_EQ(r.status, 70);
  EXPECT_THAT(r.text, HasSubstr("braid: BRAID_COMPUTE is 'many'"));
}

TEST(Programs, HeapThatIsTooSmallIsReported) {
  const Outcome r = run("BRAID_HEAP_MIB=1 " BRAID_JACOBI);
  EXPECT_EQ(r.status, 70);
  EXPECT_THAT(r.text, HasSubstr("the shared heap of 1 MiB is full"));
}

TEST(Verification, DetectsOneWrongBit) {
  std::vector<double> result(9, 1.0);
  const std::vector<double> expected = result;
  EXPECT_TRUE(braid::apps::matches(3, result, expected));
  result[5] = std::bit_cast<double>(std::bit_cast<std::uint64_t>(result[5]) ^ 1);
  testing::internal::CaptureStdout();
  EXPECT_FALSE(braid::apps::matches(3, result, expected));
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("WRONG: element (1, 2) is 1.0000000000000002"));
}

}  // namespace
