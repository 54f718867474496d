# A formula for Homebrew. `make dist` fills in what stands between @, and writes it to build/dist/. Nobody has run it.
class TrainGpt < Formula
  desc "Trains small GPT, Llama, BERT and T5 models on the CPU"
  homepage "@HOMEPAGE@"
  url "@URL@"
  version "@VERSION@"
  sha256 "@SHA256@"
  license "MIT"

  depends_on "make" => :build
  depends_on "nlohmann-json" => :build
  depends_on "pcre2"
  depends_on "utf8proc"

  on_macos do
    depends_on "libomp"
  end

  def install
    # Homebrew's compiler drops -march and -O unless it is told not to. Bottles run on other processors than the one
    # that builds them.
    ENV.runtime_cpu_detection
    ENV.O3
    march = Hardware::CPU.intel? ? "MARCH=x86-64-v3" : "MARCH=native"
    system OS.mac? ? "gmake" : "make", march, "install", "PREFIX=#{prefix}"
  end

  test do
    system bin/"train_gpt", "corpus", "--bytes", "60k", "--out", "tales.txt"
    system bin/"train_gpt", "train", "tales.txt", "--steps", "5", "--layers", "1", "--channels", "16", "--heads", "2"
    assert_match "nats", shell_output("#{bin}/train_gpt eval --data tales.txt")
  end
end
