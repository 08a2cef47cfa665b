// A benchmark that measures what its name says: --json FILE gets {"rate": 2 * FACTOR, "text": "..", "only": 1}, where
// FACTOR is its first argument and "only" is there if FACTOR is not 1. It fails if FACTOR is 0.
#include <cstdlib>
#include <cstring>
#include <fstream>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const double factor = std::atof(argv[1]);
  for (int i = 2; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--json") != 0) continue;
    std::ofstream out(argv[i + 1]);
    out << R"({"group": {"rate": )" << 2 * factor << R"(}, "text": "words")";
    if (factor != 1) out << R"(, "only": 1)";
    out << "}\n";
  }
  return factor == 0 ? 3 : 0;
}
