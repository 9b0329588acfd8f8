// SPDX-License-Identifier: Apache-2.0
// Answers about expressions, remembered while an outermost question is being answered.
#ifndef TENSORD_COMPILER_SYM_REMEMBERED_H_
#define TENSORD_COMPILER_SYM_REMEMBERED_H_

#include <absl/container/flat_hash_map.h>

#include <utility>

#include "compiler/sym/expr.h"

namespace tensord::sym {

// Unlike ==, which knows symbols by their ids, this tells ranges apart too: what is proved of an
// expression holds for those. Only for tables; the hash says nothing from run to run.
struct IdenticalExprs {
  size_t operator()(const Expr& e) const;
  bool operator()(const Expr& a, const Expr& b) const;
  size_t operator()(const std::pair<Expr, Expr>& pair) const {
    return (*this)(pair.first) * 31 + (*this)(pair.second);
  }
  bool operator()(const std::pair<Expr, Expr>& a, const std::pair<Expr, Expr>& b) const {
    return (*this)(a.first, b.first) && (*this)(a.second, b.second);
  }
};

// Proofs and quotients ask for others, and they again, about the same expressions: quotients
// within quotients would take exponential time. What is asked from outside is computed, for most of
// that is simple; what is asked on the way is kept until the outermost question is answered.
class Remembered {
 public:
  static Remembered& OfThread();

  template <class Compute>
  bool Proof(const Expr& e, const Compute& compute) {
    return Of(proofs_, e, compute);
  }
  template <class Compute>
  Expr Quotient(const Expr& a, const Expr& b, const Compute& compute) {
    return Of(quotients_, std::pair(a, b), compute);
  }

 private:
  template <class Key, class Answer>
  using Table = absl::flat_hash_map<Key, Answer, IdenticalExprs, IdenticalExprs>;

  template <class Key, class Answer, class Compute>
  Answer Of(Table<Key, Answer>& answers, const Key& key, const Compute& compute) {
    if (depth_ > 0) {
      if (const auto it = answers.find(key); it != answers.end()) return it->second;
    }
    const Question question(this);
    Answer answer = compute();
    if (depth_ > 1) answers.emplace(key, answer);
    return answer;
  }

  // One that is being answered; behind the outermost one nothing is left.
  class Question {
   public:
    explicit Question(Remembered* remembered) : remembered_(*remembered) { ++remembered_.depth_; }
    ~Question() {
      if (--remembered_.depth_ == 0) remembered_.Forget();
    }
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;

   private:
    Remembered& remembered_;
  };

  void Forget();

  int depth_ = 0;  // questions being answered
  Table<Expr, bool> proofs_;
  Table<std::pair<Expr, Expr>, Expr> quotients_;
};

}  // namespace tensord::sym

#endif  // TENSORD_COMPILER_SYM_REMEMBERED_H_
