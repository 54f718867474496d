// What is hard to see on the page as it is now (WCAG 2.2, 1.4.3 and 1.4.11): text below a contrast of 4.5 (3 if it is
// large), borders of fields and curves below 3. The test evaluates this file in the page.
(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (color) => {
    const [r, g, b] = rgba(color).slice(0, 3).map((c) => c / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const over = (color, alpha, back) => {  // a half-transparent color as it looks on an opaque one
    const [front, behind] = [rgba(color), rgba(back)];
    return `rgb(${[0, 1, 2].map((i) => alpha * front[i] + (1 - alpha) * behind[i])})`;
  };
  const behind = (element) => {
    if (!element) return "Canvas";
    const color = getComputedStyle(element).backgroundColor, [r, g, b, alpha] = rgba(color);
    if (alpha === 255) return color;
    const back = behind(element.parentElement);
    return alpha ? over(`rgb(${[r, g, b]})`, alpha / 255, back) : back;
  };
  const ratio = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  const check = (element, color, least, what, back = behind(element)) => {
    const contrast = ratio(color, back);
    if (contrast < least) found.push(`${what}: ${contrast.toFixed(2)} of ${least}: ${color} on ${back}: ${
      element.tagName.toLowerCase()}#${element.id}.${element.getAttribute("class")}`);
  };
  let texts = 0;
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    if (!element.checkVisibility() || element.disabled) continue;
    const words = [...element.childNodes].filter((n) => n.nodeType === 3 && n.data.trim());
    if (words.length && !["SCRIPT", "STYLE", "OPTION"].includes(element.tagName)) {
      ++texts;
      const size = parseFloat(style.fontSize), large = size >= (style.fontWeight >= 700 ? 18.66 : 24);  // pixels
      const color = element instanceof SVGElement ? style.fill : style.color;
      check(element, color, large ? 3 : 4.5, `text "${words[0].data.trim().slice(0, 30)}"`);
    }
    if (element.matches("input:not([type=checkbox]):not([type=range]), select, textarea"))
      check(element, style.borderTopColor, 3, "border", behind(element.parentElement));
  }
  const paper = behind(document.body);
  for (const i of [0, 1, 2, 3])
    for (const alpha of [1, kThinAlpha]) check(document.body, over(colorOf(i), alpha, paper), 3, "curve");
  for (const color of ["--soft", "--faint"]) check(document.body, css(color), 4.5, "text in a plot", paper);
  for (const back of ["--vanished", "--exploded"]) check(document.body, "#fff", 4.5, "text of a block", css(back));
  check(document.body, getComputedStyle(document.body).color, 4.5, "text of a token that the model is certain of",
    over(colorOf(0), kCellAlpha, paper));
  return { texts, found };
})()
