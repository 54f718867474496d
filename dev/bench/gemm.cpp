// The three products of a linear layer y (rows,O) = x (rows,I) wᵀ, at the shapes of two models.

#include <algorithm>
#include <cmath>

#include "data/strings/format.hpp"

#include "bench.hpp"

namespace {

struct Shape {
  const char* of;
  int rows, in, out;
};

std::vector<Shape> shapes(bool quick) {
  std::vector<Shape> list;
  for (int rows : quick ? std::vector{64} : std::vector{64, 256, 1024}) {
    list.push_back({"gpt2 qkv", rows, 768, 2304});
    list.push_back({"gpt2 o", rows, 768, 768});
    list.push_back({"gpt2 up", rows, 768, 3072});
    list.push_back({"gpt2 down", rows, 3072, 768});
    if (rows == 256) list.push_back({"gpt2 head", rows, 768, 50257});
  }
  list.push_back({"nano qkv", 768, 128, 384});
  list.push_back({"nano o", 768, 128, 128});
  list.push_back({"nano up", 768, 128, 512});
  list.push_back({"nano down", 768, 512, 128});
  list.push_back({"nano head", 768, 128, 65});
  list.push_back({"odd", 33, 65, 17});
  list.push_back({"odd", 127, 511, 255});
  return list;
}

struct Form {
  const char* name;
  void (*product)(float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options);
  int M, N, K;
  bool accumulate;
};

std::vector<Form> forms_of(const Shape& s) {
  return {{"nt", gemm_nt, s.rows, s.out, s.in, false},   // y = x wᵀ
          {"nn", gemm_nn, s.rows, s.in, s.out, false},   // dx = dy w
          {"tn", gemm_tn, s.out, s.in, s.rows, true}};   // dw += dyᵀ x
}

Json bench_product(Bench& bench, const Shape& shape, const Form& form, Matmul matmul) {
  const auto [name, product, M, N, K, accumulate] = form;
  const Buffer a = random_floats(size_t(M) * K), b = random_floats(size_t(N) * K), c = allocate(size_t(M) * N);
  const GemmOptions options{.accumulate = accumulate, .matmul = matmul};
  const auto request = [&](const char* by) {
    return std::string("gemm by=") + by + " form=" + form.name + " m=" + std::to_string(form.M) +
           " n=" + std::to_string(form.N) + " k=" + std::to_string(form.K) + " matmul=" + name_of(kMatmuls, matmul);
  };
  std::vector<Contestant> contestants = {
      bench.clock.ours([&] { form.product(c.get(), a.get(), b.get(), form.M, form.N, form.K, options); })};
  if (bench.clock.peer.present()) {
    contestants.push_back(bench.clock.theirs(request("torch")));
    if (matmul == Matmul::fp32) contestants.push_back(bench.clock.theirs(request("numpy")));
  }
  const std::vector<Times> times = bench.clock.race(contestants);
  bench.clock.peer.forget();

  const double flops = 2. * M * N * K;
  Json row = {{"of", shape.of}, {"form", name}, {"matmul", name_of(kMatmuls, matmul)}, {"M", M}, {"N", N}, {"K", K}};
  add_speed(row, times[0], flops, bench.flops(matmul));
  double ratio = INFINITY;  // ours against the better of the two
  const char* keys[] = {nullptr, "pytorch", "numpy"};
  for (size_t i = 1; i < times.size(); ++i) {
    if (!times[i].known()) continue;
    row[keys[i]] = flops / times[i].seconds() / 1e9;
    ratio = std::min(ratio, speedup(times[0], times[i]));
  }
  if (std::isfinite(ratio)) row["ratio"] = ratio;
  return row;
}

void summarize(Bench& bench, Matmul matmul, const std::vector<Json>& rows) {
  std::vector<double> ratios, shares;
  const Json* worst = nullptr;
  for (const Json& row : rows) {
    shares.push_back(row["share"]);
    if (!row.contains("ratio")) continue;
    ratios.push_back(row["ratio"]);
    if (!worst || row["ratio"] < (*worst)["ratio"]) worst = &row;
  }
  Json summary = {{"median share", median(shares)}};
  std::string text = name_of(kMatmuls, matmul) + format(": median share of the ceiling %.0f %%", 100 * median(shares));
  if (worst) {
    summary["median ratio"] = median(ratios), summary["lowest ratio"] = (*worst)["ratio"];
    text += format("; ours / the better peer: median %.2f", median(ratios)) +
            format(", lowest %.2f", (*worst)["ratio"].get<double>()) + " (" + (*worst)["of"].get<std::string>() + " " +
            (*worst)["form"].get<std::string>() + ")";
  }
  bench.report.keep(std::string("gemm ") + name_of(kMatmuls, matmul), summary);
  bench.report.say(text);
}

}  // namespace

void bench_gemm(Bench& bench) {
  for (Matmul matmul : matmuls()) {
    const bool bf16 = matmul == Matmul::bf16;
    std::vector<Column> columns = {{"of", "of", 10, kText}, {"form", "", 2, kText}, {"M", "M", 5, 0}, {"N", "N", 5, 0},
                                   {"K", "K", 5, 0}, {"speed", "ours", 7, 1}, {"share", "of ceiling", 10, kShare},
                                   {"pytorch", "PyTorch", 7, 1}};
    if (!bf16) columns.push_back({"numpy", "NumPy", 7, 1});
    columns.push_back({"ratio", "ours / better", 13, 2});
    bench.report.table("gemm", std::string("Products, ") + name_of(kMatmuls, matmul) + ", GFLOP/s" +
                                   (bf16 ? " (from float operands and back to float, conversion included)" : ""),
                       columns);
    std::vector<Json> rows;
    for (const Shape& shape : shapes(bench.quick))
      for (const Form& form : forms_of(shape)) {
        rows.push_back(bench_product(bench, shape, form, matmul));
        bench.report.row(rows.back());
      }
    summarize(bench, matmul, rows);
  }
  if (bench.clock.peer.present())
    bench.report.say("nt: y = x wᵀ    nn: dx = dy w    tn: dw += dyᵀ x; in PyTorch addmm_ (bf16: mm and add_), in\n"
                     "NumPy matmul and add: it has no product that adds");
}
