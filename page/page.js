// Draws a picture of a cluster: one moment, as data. Every text is put in as text, never as markup.
"use strict";
const page = (() => {
  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = String(text);
    if (name) element.className = name;
    return element;
  };
  const at = (id) => document.getElementById(id);
  const put = (id, ...parts) => at(id).replaceChildren(...parts);
  const watts = (value) => value >= 10000 ? `${(value / 1000).toFixed(1)} kW` : `${Math.round(value)} W`;
  const ago = (seconds) => {
    if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
    return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
  };
  const KINDS = { good: "works", busy: "runs jobs", warn: "takes no jobs", bad: "down or with a fault", off: "not known" };
  const FOLDED = 64; // nodes beyond which racks are folded, and have rows only once they are opened
  const opened = new Set(); // racks, which stay open when all is drawn again
  const SEVERITY = { critical: "bad", warning: "warn", info: "off" };

  // What is shown of a node: a fault first, then what Slurm says.
  function kind(node) {
    if (node.up === false || /down|fail|not_responding/.test(node.state)) return "bad";
    if (node.gpus.some((gpu) => gpu.present === false) || node.trouble) return "bad";
    if (/drain|maint|reserved/.test(node.state)) return "warn";
    if (/alloc|mix|completing/.test(node.state)) return "busy";
    return node.up || node.state ? "good" : "off";
  }

  function totals(picture) {
    const gpus = picture.nodes.flatMap((node) => node.gpus);
    const sum = (values) => values.reduce((a, b) => a + b, 0);
    const measured = picture.nodes.filter((node) => node.power_w !== null);
    const figures = [
      ["nodes that work", `${picture.nodes.filter((node) => !["bad", "off"].includes(kind(node))).length} of ${picture.nodes.length}`],
      ["GPUs in jobs", picture.jobs ? `${gpus.filter((gpu) => gpu.job).length} of ${gpus.length}` : "not known"],
      ["jobs running", picture.jobs ? picture.jobs.running : "not known"],
      ["jobs waiting", picture.jobs ? picture.jobs.pending : "not known"],
      ["alerts", picture.alerts ? picture.alerts.length : "not known"],
      ...(picture.faults ? [["faults", picture.faults.length]] : []),
    ];
    if (measured.length) {
      figures.push([`power of ${measured.length} nodes`, watts(sum(measured.map((node) => node.power_w)))]);
    }
    put("totals", ...figures.map(([label, value]) => {
      const box = make("div");
      box.append(make("b", value), make("span", label, "soft"));
      return box;
    }));
  }

  // Commands stand between backticks.
  function to_do(text) {
    const line = make("p", "What to do: ");
    line.append(...text.split("`").map((part, place) => place % 2 ? make("code", part) : part));
    return line;
  }

  // `found`: alerts of Prometheus, or what `hpcforge status` found; null: it did not ask for them.
  function boxes(found, time_s, none) {
    const order = ["critical", "warning", "info"];
    const sorted = [...(found || [])].sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
    return sorted.length ? sorted.map((alert) => {
      const box = make("div", null, `alert ${SEVERITY[alert.severity] || "off"}`);
      const head = make("p");
      const since = alert.since_s ? `, for ${ago(time_s - alert.since_s)}` : "";
      head.append(make("strong", alert.name), make("span", ` ${alert.severity}${since}`, "soft"));
      box.append(head, make("p", alert.place ? `${alert.place}: ${alert.summary}` : alert.summary));
      if (alert.next) box.append(to_do(alert.next));
      return box;
    }) : [make("p", none, "soft")];
  }

  function alerts(picture) {
    const none = picture.alerts ? "none" : "not known: hpcforge status does not ask Prometheus";
    put("alerts", ...boxes(picture.alerts, picture.time_s, none));
    at("faults").hidden = !picture.faults;
    put("faults", make("h2", "Faults"), ...boxes(picture.faults, picture.time_s, "none"));
  }

  function racks(picture, choose, chosen) {
    put("legend", ...Object.entries(KINDS).map(([name, text]) => make("li", text, name)));
    const groups = new Map();
    for (const node of picture.nodes) {
      const rack = node.rack || "";
      groups.set(rack, [...(groups.get(rack) || []), node]);
    }
    const folded = picture.nodes.length > FOLDED;
    put("racks", ...[...groups].map(([rack, nodes]) => {
      const box = make(folded ? "details" : "div", null, rack ? "rack" : "rack loose");
      const title = rack ? `Rack ${rack}` : "In no rack";
      nodes.sort((a, b) => (b.rack_u || 0) - (a.rack_u || 0));
      const rows = () => { for (const node of nodes) box.append(line(node)); };
      if (folded) {
        const bad = nodes.filter((node) => kind(node) === "bad").length;
        const summary = make("summary", title);
        summary.append(make("span", `, ${nodes.length} nodes${bad ? `; ${KINDS.bad}: ${bad}` : ""}`, "soft"));
        summary.id = `rack-${rack}`;
        box.append(summary);
        box.open = opened.has(rack) || nodes.some((node) => node.name === chosen);
        if (box.open) rows();
        box.addEventListener("toggle", () => {
          if (box.open && box.childElementCount === 1) rows();
          opened[box.open ? "add" : "delete"](rack);
        });
      } else {
        box.append(make("h3", title));
        rows();
      }
      return box;

      function line(node) {
        const row = make("button", null, `node ${kind(node)}`);
        row.type = "button";
        row.id = `node-${node.name}`;
        row.setAttribute("aria-pressed", String(node.name === chosen));
        const name = make("span", node.name, "name");
        name.append(make("span", [node.state, KINDS[kind(node)]].find(Boolean), "state"));
        const gpus = make("span", null, "gpus");
        for (const gpu of node.gpus) {
          const free = picture.jobs ? "free" : "its job is not known";
          const cell = make("span", null, `gpu ${gpu.present === false ? "bad" : gpu.job ? "busy" : ""}`);
          cell.title = `GPU ${gpu.index}: ${gpu.present === false ? "missing" : gpu.job ? `job ${gpu.job}` : free}`;
          gpus.append(cell);
        }
        row.append(make("span", node.rack_u || "", "unit"), name, gpus);
        row.addEventListener("click", () => choose(node.name));
        return row;
      }
    }));
  }

  function power(picture) {
    at("power").hidden = !picture.feeds.length;
    put("feeds", ...picture.feeds.map((feed) => {
      const box = make("div");
      const known = feed.load_w !== null;
      const limit = feed.limit_w === null ? "its limit is not known" : `of ${watts(feed.limit_w)}`;
      const part = known && feed.limit_w ? feed.load_w / feed.limit_w : 0;
      const word = part > 1 ? ", over its limit" : part > 0.9 ? ", over 90 %" : "";
      box.append(make("h3", `Feed ${feed.name}: ${known ? watts(feed.load_w) : "not measured"} ${limit}${word}`));
      const bar = make("div", null, `bar ${part > 1 ? "bad" : part > 0.9 ? "warn" : ""}`);
      const inner = make("span");
      inner.style.width = `${Math.min(100, part * 100)}%`;
      bar.append(inner);
      box.append(bar);
      if (known) box.append(make("p", `measured: ${feed.measured} of ${feed.nodes} nodes`, "soft"));
      return box;
    }));
  }

  function one(picture, name) {
    const node = picture.nodes.find((each) => each.name === name);
    at("node").hidden = !node;
    if (!node) return null;
    const list = make("dl");
    const row = (label, value) => { if (value !== "" && value !== null) list.append(make("dt", label), make("dd", value)); };
    row("place", node.rack ? `rack ${node.rack}${node.rack_u ? `, unit ${node.rack_u}` : ""}` : "");
    row("functions", node.functions.join(", "));
    row("Slurm", node.state || "not a worker");
    row("reason", node.reason || "");
    row("trouble", node.trouble || "");
    row("CPUs in jobs", node.cpus ? `${node.cpus[0]} of ${node.cpus[1]}` : "");
    for (const gpu of node.gpus) {
      const free = picture.jobs ? "free" : "its job is not known";
      const parts = [gpu.present === false ? "missing" : gpu.job ? `job ${gpu.job}` : free];
      if (gpu.use !== null) parts.push(`${Math.round(gpu.use * 100)} %`);
      if (gpu.celsius !== null) parts.push(`${Math.round(gpu.celsius)} \u00b0C`);
      if (gpu.watts !== null) parts.push(watts(gpu.watts));
      row(`GPU ${gpu.index}`, parts.join(", "));
    }
    const charts = make("div", null, "charts");
    put("node", make("h2", node.name), list, charts);
    return charts;
  }

  // Draw all of it; returns where charts of the chosen node go.
  function draw(picture, chosen, choose) {
    document.title = `${picture.cluster}: ${picture.alerts ? `${picture.alerts.length} alerts` : `${picture.faults.length} faults`}`;
    const focused = document.activeElement.id; // what keys have reached is drawn anew, too
    put("name", picture.cluster);
    put("when", `${new Date(picture.time_s * 1000).toISOString().slice(0, 19).replace("T", " ")} UTC, by ${picture.source}`);
    totals(picture);
    alerts(picture);
    racks(picture, choose, chosen);
    power(picture);
    if (focused) at(focused)?.focus({ preventScroll: true });
    return one(picture, chosen);
  }

  return { draw, make, put, at };
})();
