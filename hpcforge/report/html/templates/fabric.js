"use strict";
// Filters the tables of cables: every phrase, set apart by commas, must occur in a row. The page reads the same without it.
for (const table of document.querySelectorAll("table.cables")) {
  const search = table.closest("details").querySelector(".search");
  const [input, output] = [search.querySelector("input"), search.querySelector("output")];
  const rows = [...table.tBodies[0].rows];
  const plain = (text) => text.toLowerCase().replace(/\s+/g, " ").trim();
  const texts = rows.map((row) => plain([...row.cells].map((cell) => cell.textContent).join(" ")));
  search.hidden = false;
  input.addEventListener("input", () => {
    const phrases = input.value.split(",").map((phrase) => plain(phrase)).filter(Boolean);
    let found = 0;
    rows.forEach((row, index) => {
      const hit = phrases.every((phrase) => texts[index].includes(phrase));
      row.hidden = !hit;
      found += hit;
    });
    output.textContent = `${found.toLocaleString("en")} of ${rows.length.toLocaleString("en")} cables`;
  });
}
