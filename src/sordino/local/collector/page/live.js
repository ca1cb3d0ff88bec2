// The live page: estimates with their intervals, drawn anew every second. The token stays in the address's fragment,
// which browsers do not send.
const at = id => document.getElementById(id);
const task = at('live').dataset.task;
const percent = share => `${(100 * share).toFixed(1)}%`;
const ROW = 30, LEFT = 150, WIDE = 640, ROOM = 60;
let token = new URLSearchParams(location.hash.slice(1)).get('token');

function shape(kind, attributes, words) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (words !== undefined) made.textContent = words;
  return made;
}

function draw(labels) {
  const chart = at('chart'), most = Math.max(0.05, ...labels.map(one => one.adversarial_upper));
  const x = share => LEFT + Math.min(1, Math.max(0, share / most)) * (WIDE - LEFT - ROOM);
  chart.setAttribute('viewBox', `0 0 ${WIDE} ${ROW * labels.length + 4}`);
  chart.replaceChildren(...labels.flatMap((one, i) => {
    const y = ROW * i + ROW / 2, name = one.label === null ? 'no answer' : String(one.label);
    const across = { y1: y, y2: y };
    return [
      shape('text', { x: LEFT - 8, y: y + 4, 'text-anchor': 'end' }, name.length > 20 ? `${name.slice(0, 19)}…` : name),
      shape('rect', { class: 'bar', x: LEFT, y: y - 9, height: 18, width: x(one.frequency) - LEFT }),
      shape('line', { class: 'malicious', x1: x(one.adversarial_lower), x2: x(one.adversarial_upper), ...across }),
      shape('line', { class: 'interval', x1: x(one.lower), x2: x(one.upper), ...across }),
      shape('text', { x: x(one.adversarial_upper) + 6, y: y + 4 }, percent(one.frequency)),
    ];
  }));
}

function list(labels) {
  at('rows').replaceChildren(...labels.map(one => {
    const row = document.createElement('tr');
    const cells = [one.label === null ? 'no answer' : one.label, percent(one.frequency), percent(one.lower), percent(one.upper),
      `${percent(one.adversarial_lower)} to ${percent(one.adversarial_upper)}`, Math.round(one.count).toLocaleString('en')];
    row.append(...cells.map(words => Object.assign(document.createElement('td'), { textContent: words })));
    return row;
  }));
}

async function look() {
  if (token) {
    try {
      const answer = await fetch(`/v1/tasks/${task}/estimate`, { headers: { authorization: `Bearer ${token}` }, credentials: 'omit' });
      const found = await answer.json();
      if (answer.status === 401 || answer.status === 403) token = null;
      if (!token) throw new Error("This is no administrator's token.");
      if (!answer.ok) throw new Error(found.error.says);
      at('reports').textContent = found.reports.toLocaleString('en');
      at('state').textContent = found.closed ? 'closed' : 'open';
      at('status').textContent = found.reports ? '' : 'No reports yet.';
      draw(found.labels);
      list(found.labels);
    } catch (error) {
      at('status').textContent = error.message;
    }
  }
  at('door').hidden = Boolean(token);
  setTimeout(look, 1000);
}

at('door').addEventListener('submit', event => {
  event.preventDefault();
  token = at('token').value;
  at('door').hidden = true;
});
look();
