// Reads Prometheus through the web server beside this page, makes a picture of its answers, and draws it again and again.
"use strict";
(() => {
  const EVERY_MS = 15000;
  const BACK_S = 6 * 3600;
  const QUERIES = {
    up: 'probe_success{job="ping"}',
    state: "slurm_node_state",
    drained: "slurm_node_drained == 1",
    cpus: "slurm_node_cpus_allocated",
    cpus_all: "slurm_node_cpus",
    jobs: "sum by (state) (slurm_jobs)",
    present: "gpu_present",
    gpu_job: "gpu_job",
    use: "gpu_utilization_ratio",
    watts: "gpu_power_watts",
    celsius: "gpu_temperature_celsius",
    power: "max by (node) (ipmi_dcmi_power_consumption_watts)",
  };
  const CHARTS = [
    ["CPU in use, %", (node) => `100 - 100 * avg(rate(node_cpu_seconds_total{node="${node}",mode="idle"}[5m]))`],
    ["Memory in use, GiB", (node) => `(node_memory_MemTotal_bytes{node="${node}"} - node_memory_MemAvailable_bytes{node="${node}"}) / 2^30`],
    ["Network received, MB/s", (node) => `sum(rate(node_network_receive_bytes_total{node="${node}",device!="lo"}[5m])) / 1e6`],
    ["GPUs in use, %", (node) => `100 * avg(gpu_utilization_ratio{node="${node}"})`],
  ];
  let site = null;
  let chosen = decodeURIComponent(location.hash.slice(1)) || null;
  let drawn = 0;

  async function ask(path) {
    // Of the address in the browser nothing but where it leads: it may hold a password, with which nothing is fetched.
    const answer = await fetch(new URL(path, location.origin + location.pathname), { credentials: "same-origin" });
    if (!answer.ok) throw new Error(`${path.split("?")[0]}: ${answer.status} ${answer.statusText}`);
    return answer.json();
  }
  const query = async (text) => (await ask(`prometheus/api/v1/query?query=${encodeURIComponent(text)}`)).data.result;

  // Values by node, or by node and GPU.
  const by = (rows, value) => new Map(rows.map((row) => [row.metric.node + (row.metric.gpu ? `/${row.metric.gpu}` : ""), value(row)]));
  const number = (row) => Number(row.value[1]);

  function pictured(found, alerts) {
    const map = (name, value = number) => by(found[name], value);
    const [up, cpus, all, present, use, watts, celsius, measured] =
      ["up", "cpus", "cpus_all", "present", "use", "watts", "celsius", "power"].map((name) => map(name));
    const state = map("state", (row) => row.metric.state);
    const reason = map("drained", (row) => row.metric.reason);
    const job = map("gpu_job", (row) => row.metric.job_id);
    const get = (values, key) => values.has(key) ? values.get(key) : null;
    const nodes = site.nodes.map((node) => {
      const gpus = Array.from({ length: node.gpus }, (_, index) => {
        const key = `${node.name}/${index}`;
        return { index, present: present.has(key) ? present.get(key) === 1 : null, job: get(job, key),
          use: get(use, key), watts: get(watts, key), celsius: get(celsius, key) };
      });
      const of_gpus = gpus.filter((gpu) => gpu.watts !== null).reduce((sum, gpu) => sum + gpu.watts, 0);
      return { ...node, gpus, up: up.has(node.name) ? up.get(node.name) === 1 : null, state: get(state, node.name) || "",
        reason: get(reason, node.name), cpus: all.has(node.name) ? [get(cpus, node.name), all.get(node.name)] : null,
        power_w: get(measured, node.name) ?? (of_gpus || null) };
    });
    const feeds = site.feeds.map((feed) => {
      const on = nodes.filter((node) => feed.shares[node.rack]);
      const known = on.filter((node) => node.power_w !== null);
      return { name: feed.name, limit_w: feed.limit_w, nodes: on.length, measured: known.length,
        load_w: known.length ? known.reduce((sum, node) => sum + node.power_w * feed.shares[node.rack], 0) : null };
    });
    // As Alertmanager holds them back: all of a node that hpcforge works on or has removed.
    const shown = alerts.filter((alert) => alert.state === "firing");
    const held = new Set(shown.filter((alert) => alert.labels.explains === "all").map((alert) => alert.labels.node));
    const jobs = new Map(found.jobs.map((row) => [row.metric.state, number(row)]));
    return { cluster: site.cluster, source: "Prometheus", time_s: Date.now() / 1000, nodes, feeds,
      jobs: found.jobs.length ? { running: jobs.get("running") || 0, pending: jobs.get("pending") || 0 } : null,
      alerts: shown.filter((alert) => alert.labels.severity !== "none" && !held.has(alert.labels.node)).map((alert) => ({
        name: alert.labels.alertname, node: alert.labels.node, severity: alert.labels.severity,
        since_s: Date.parse(alert.activeAt) / 1000, ...alert.annotations })) };
  }

  const clock = (second) => new Date(second * 1000).toISOString().slice(11, 16);

  async function chart(place, of, node, turn) {
    const end = Math.floor(Date.now() / 1000);
    const range = `start=${end - BACK_S}&end=${end}&step=60&query=${encodeURIComponent(of(node))}`;
    const rows = (await ask(`prometheus/api/v1/query_range?${range}`)).data.result;
    if (turn !== drawn) return;
    if (!rows.length) {
      place.remove();
      return;
    }
    const ink = getComputedStyle(document.body).color;
    const values = rows[0].values;
    const axis = { stroke: ink, grid: { stroke: "#8886", width: 1 }, ticks: { stroke: "#8886" } };
    new uPlot({ width: Math.max(240, place.clientWidth), height: 160, legend: { show: false }, axes: [{ ...axis, values: (_, ticks) => ticks.map(clock) }, axis],
      scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.1 : 1] } },
      series: [{}, { stroke: "#2f7fd6", width: 1.5, fill: "#2f7fd622" }] },
      [values.map((pair) => pair[0]), values.map((pair) => Number(pair[1]))], place);
  }

  async function turn() {
    const now = ++drawn;
    try {
      site = site || await ask("cluster.json");
      const names = Object.keys(QUERIES);
      const [alerts, ...rows] = await Promise.all([ask("prometheus/api/v1/alerts"), ...names.map((name) => query(QUERIES[name]))]);
      if (now !== drawn) return;
      const charts = page.draw(pictured(Object.fromEntries(names.map((name, at) => [name, rows[at]])), alerts.data.alerts), chosen, choose);
      page.at("trouble").hidden = true;
      if (!charts) return;
      // All places first: each is then as wide as it stays.
      const places = CHARTS.map(([title]) => {
        const place = page.make("div", null, "chart");
        place.append(page.make("h3", `${title} (UTC)`));
        charts.append(place);
        return place;
      });
      await Promise.all(CHARTS.map(([, of], index) => chart(places[index], of, chosen, now)));
    } catch (error) {
      page.put("trouble", `Nothing new is shown: ${error.message}`);
      page.at("trouble").hidden = false;
    }
  }

  function choose(name) {
    chosen = name === chosen ? null : name;
    history.replaceState(null, "", chosen ? `#${encodeURIComponent(chosen)}` : location.pathname);
    turn().then(() => chosen && page.at("node").scrollIntoView({ behavior: "smooth", block: "nearest" }));
  }

  turn();
  setInterval(turn, EVERY_MS);
})();
