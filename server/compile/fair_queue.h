// SPDX-License-Identifier: Apache-2.0
// Who is next: callers take turns, and each caller's items keep their order.
//
// One caller with a thousand items delays another, who has one, by one item. Not locked.
#ifndef TENSORD_SERVER_COMPILE_FAIR_QUEUE_H_
#define TENSORD_SERVER_COMPILE_FAIR_QUEUE_H_

#include <algorithm>
#include <deque>
#include <iterator>
#include <list>
#include <string>
#include <utility>

namespace tensord::server {

// `Item` is a pointer-like value, whose default is what Take() returns where there is nothing.
template <class Item>
class FairQueue {
 public:
  // The item is the last of its caller's. One that several callers want is added for each of them:
  // it comes in the first turn of any, after which Remove() takes it from the others.
  void Add(const std::string& caller, Item item) {
    auto line = std::find_if(lines_.begin(), lines_.end(),
                             [&](const Line& other) { return other.caller == caller; });
    if (line == lines_.end()) line = lines_.insert(lines_.end(), Line{caller, {}});
    line->items.push_back(std::move(item));
  }

  // Removes and returns the first item that `may(item)` allows of the first caller who has one; it
  // is then everybody else's turn before that caller's next.
  template <class May>
  Item Take(const May& may) {
    for (auto line = lines_.begin(); line != lines_.end(); ++line) {
      const auto found = std::find_if(line->items.begin(), line->items.end(), may);
      if (found == line->items.end()) continue;
      Item item = std::move(*found);
      line->items.erase(found);
      if (line->items.empty()) {
        lines_.erase(line);
      } else {
        lines_.splice(lines_.end(), lines_, line);
      }
      return item;
    }
    return Item();
  }

  // The last item of the longest line that stands in no other, where the line is longer than the
  // caller's would be with one more.
  Item LastOfLonger(const std::string& caller) const {
    size_t own = 0;
    const Line* longest = nullptr;
    for (const Line& line : lines_) {
      if (line.caller == caller) own = line.items.size();
      if (longest == nullptr || line.items.size() > longest->items.size()) longest = &line;
    }
    if (longest == nullptr || longest->items.size() <= own + 1) return Item();
    const auto is_alone = [&](const Item& item) {
      return std::none_of(lines_.begin(), lines_.end(), [&](const Line& line) {
        return &line != longest &&
               std::find(line.items.begin(), line.items.end(), item) != line.items.end();
      });
    };
    const auto found = std::find_if(longest->items.rbegin(), longest->items.rend(), is_alone);
    return found == longest->items.rend() ? Item() : *found;
  }

  // From every caller's line.
  void Remove(const Item& item) {
    for (auto line = lines_.begin(); line != lines_.end();) {
      std::erase(line->items, item);
      line = line->items.empty() ? lines_.erase(line) : std::next(line);
    }
  }

 private:
  struct Line {
    std::string caller;
    std::deque<Item> items;
  };
  std::list<Line> lines_;  // whose turn it is first; none is empty
};

}  // namespace tensord::server

#endif  // TENSORD_SERVER_COMPILE_FAIR_QUEUE_H_
