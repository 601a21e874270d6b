"use strict";
// Click a column heading to sort its table: numbers by value with missing ones last, text alphabetically.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const sign = down ? -1 : 1;
    const key = (row) => {
      const cell = row.cells[column];
      return "value" in cell.dataset ? Number.parseFloat(cell.dataset.value) : cell.textContent.trim();
    };
    const rows = [...body.rows].map((row) => ({ row, key: key(row) }));
    rows.sort((a, b) => {
      if (typeof a.key === "string") return sign * a.key.localeCompare(b.key);
      if (Number.isNaN(a.key) || Number.isNaN(b.key)) return Number.isNaN(a.key) - Number.isNaN(b.key);
      return sign * (a.key - b.key);
    });
    body.append(...rows.map((item) => item.row));
  }));
}
document.documentElement.dataset.ready = "yes";
