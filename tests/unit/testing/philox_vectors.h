// SPDX-License-Identifier: Apache-2.0
// tests/golden/philox_vectors.txt, which every copy of the random generator is compared with.
// TENSORD_GOLDEN_DIR: the folder, from the build.
#ifndef TENSORD_TESTS_UNIT_TESTING_PHILOX_VECTORS_H_
#define TENSORD_TESTS_UNIT_TESTING_PHILOX_VECTORS_H_

#include <array>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tensord::testing {

struct PhiloxVectors {
  struct Words {
    std::array<uint32_t, 4> counter;
    std::array<uint32_t, 2> key;
    std::array<uint32_t, 4> words;
  };
  struct Number {
    int64_t seed, stream, element;
    double value;
  };
  std::vector<Words> words;
  std::vector<Number> uniform;  // exact in float32
  std::vector<Number> normal;   // nine digits
};

inline PhiloxVectors ReadPhiloxVectors() {
  PhiloxVectors vectors;
  std::ifstream file(TENSORD_GOLDEN_DIR "/philox_vectors.txt");
  for (std::string line, kind; std::getline(file, line);) {
    std::istringstream in(line);
    in >> kind;
    if (kind == "words") {
      PhiloxVectors::Words w{};
      in >> std::hex;
      for (uint32_t& word : w.counter) in >> word;
      for (uint32_t& word : w.key) in >> word;
      for (uint32_t& word : w.words) in >> word;
      vectors.words.push_back(w);
    } else if (kind == "uniform" || kind == "normal") {
      PhiloxVectors::Number n{};
      in >> n.seed >> n.stream >> n.element >> n.value;
      if (kind == "uniform") n.value *= 0x1p-24;
      (kind == "uniform" ? vectors.uniform : vectors.normal).push_back(n);
    }
  }
  return vectors;
}

inline void PrintTo(const PhiloxVectors::Number& n, std::ostream* out) {
  *out << n.value << " of seed " << n.seed << ", stream " << n.stream << ", element " << n.element;
}

// Whether a normal number in float32 is this one: log, sqrt and cos differ by a few units.
inline bool IsNormal(double value, const PhiloxVectors::Number& number) {
  const double error = value - number.value, scale = 1 + (number.value < 0 ? -1 : 1) * number.value;
  return (error < 0 ? -error : error) <= 1e-6 * scale;
}

}  // namespace tensord::testing

#endif  // TENSORD_TESTS_UNIT_TESTING_PHILOX_VECTORS_H_
