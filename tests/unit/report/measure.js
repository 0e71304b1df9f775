// Runs in the page that frames the designs; reads them from outside, so that they stay as they are.
"use strict";

const colour = (text) => text.match(/[\d.]+/g).map(Number);

function luminance(rgb) {
  const [r, g, b] = rgb.slice(0, 3).map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function background(element, style) {
  for (let at = element; at; at = at.parentElement) {
    const rgb = colour(style(at).backgroundColor);
    if (rgb.length === 3 || rgb[3] > 0.99) return rgb;
  }
  return [255, 255, 255];
}

function contrast(element, style) {
  const pair = [colour(style(element).color), background(element, style)].map(luminance).sort((a, b) => b - a);
  return (pair[0] + 0.05) / (pair[1] + 0.05);
}

// Every line of text outside drawings: {text, left, top, right, bottom, element}.
function lines(doc) {
  const found = [];
  const walker = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("svg, script, style, .stack thead, [hidden]")) continue;
    const range = doc.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) found.push(entry(node.data.trim(), box, parent));
  }
  return found;
}

function entry(text, box, element) {
  return { text: text.slice(0, 40), left: box.left, top: box.top, right: box.right, bottom: box.bottom, element };
}

function overlapping(boxes) {
  const found = [];
  boxes.sort((a, b) => a.top - b.top);
  boxes.forEach((one, index) => {
    for (let other = index + 1; other < boxes.length && boxes[other].top < one.bottom - 1; other++) {
      const two = boxes[other];
      const across = Math.min(one.right, two.right) - Math.max(one.left, two.left);
      const down = Math.min(one.bottom, two.bottom) - two.top;
      // line boxes of one paragraph may touch; glyphs do not fill them
      if (across > 0.5 && down > (one.element === two.element ? 6 : 3)) found.push(`${one.text} / ${two.text}`);
    }
  });
  return found;
}

function outside(box, around, slack) {
  return box.left < around.left - slack || box.right > around.right + slack ||
    box.top < around.top - slack || box.bottom > around.bottom + slack;
}

function drawing(svg) {
  const texts = [...svg.querySelectorAll("text")];
  const boxes = texts.map((text) => entry(text.textContent, text.getBoundingClientRect(), text));
  const around = svg.getBoundingClientRect();
  const escaped = boxes.filter((box) => outside(box, around, 0.5)).map((box) => box.text);
  for (const box of boxes) {
    const mount = box.element.parentElement.closest("g")?.querySelector(":scope > rect");
    if (mount && outside(box, mount.getBoundingClientRect(), 2)) escaped.push(`${box.text} in its box`);
  }
  return { overlaps: overlapping(boxes), escaped, scale: around.width / svg.viewBox.baseVal.width, texts };
}

// What the search of a table of cables leaves: {rows, shown, said}, null where there is none.
function searched(doc, words) {
  const input = doc.querySelector(".search input");
  if (!input) return null;
  input.value = words;
  input.dispatchEvent(new doc.defaultView.Event("input"));
  const rows = [...doc.querySelector("table.cables").tBodies[0].rows];
  const shown = rows.filter((row) => row.getClientRects().length).map((row) => row.textContent);
  return { rows: rows.length, shown, said: doc.querySelector(".search output").textContent };
}

function measure(frame) {
  const doc = frame.contentDocument;
  for (const details of doc.querySelectorAll("details")) details.open = true; // Chromium lays out closed ones unseen
  const style = (element) => frame.contentWindow.getComputedStyle(element);
  const drawings = [...doc.querySelectorAll("svg.rack, svg.fabric")].map(drawing);
  const text = lines(doc);
  const sizes = text.map((line) => parseFloat(style(line.element).fontSize));
  for (const one of drawings) sizes.push(...one.texts.map((t) => parseFloat(style(t).fontSize) * one.scale));
  return {
    page_overflow: doc.documentElement.scrollWidth - doc.documentElement.clientWidth,
    width: doc.documentElement.clientWidth,
    overlaps: [...overlapping(text), ...drawings.flatMap((one) => one.overlaps)],
    escaped: drawings.flatMap((one) => one.escaped),
    smallest_px: Math.min(...sizes),
    faint: [...new Set(text.filter((line) => contrast(line.element, style) < 4.5).map((line) => line.text))],
    clipped: [...doc.querySelectorAll("main > ol > li")].filter((one) => one.scrollHeight > one.clientHeight + 1 ||
      one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent), // labels of cables
    lines: text.length,
    labels: drawings.flatMap((one) => one.texts.map((t) => t.textContent)),
    title: doc.title,
    inline: [...doc.scripts].map((one) => one.textContent),
    scripts: doc.querySelectorAll("script, img, iframe, object, embed").length,
    handlers: [...doc.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on"))).length,
    search: searched(doc, "leaf-002, GPU002  rail 2"),
    requests: frame.contentWindow.performance.getEntriesByType("resource").map((one) => one.name),
  };
}

addEventListener("load", () => {
  const frames = [...document.querySelectorAll("iframe")];
  const measured = Object.fromEntries(frames.map((frame) => [frame.id, measure(frame)]));
  console.info("measured"); // shows that lines of the console are seen
  document.body.replaceChildren(Object.assign(document.createElement("pre"), { textContent: JSON.stringify(measured) }));
});
