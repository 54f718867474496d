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
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement)
      if (rgba(getComputedStyle(e).backgroundColor)[3] === 255) return getComputedStyle(e).backgroundColor;
    return "Canvas";
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
  for (const i of [0, 1, 2, 3]) check(document.body, colorOf(i), 3, "curve");
  return { texts, found };
})()
