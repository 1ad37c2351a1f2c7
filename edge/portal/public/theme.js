// Runs before the first paint, so that a chosen theme never flashes. A file of its own, because the page's
// Content-Security-Policy allows no inline script.
(() => {
  try {
    const theme = localStorage.getItem('theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch {
    // Storage is blocked: the system's theme it is.
  }
})();

// While an upgrade has two versions of the gateway behind one balancer, the one that is asked for a file of this page may be the one that
// does not have it. The page is loaded anew then, a few times: what was fetched is kept. Once it is there, src/router/fetched.ts sees to it.
(() => {
  const pauseMs = 1_000;
  const reloadsMax = 10;
  let isWhole = true;
  const reload = () =>
    fetch('/healthz')
      .then(({ status }) => status < 500)
      .catch(() => false)
      .then((answers) => (answers ? location.reload() : setTimeout(reload, pauseMs)));
  const onError = ({ target }) => {
    const address = String(target.src ?? target.href);
    if (!isWhole || document.readyState === 'complete' || !address.startsWith(`${location.origin}/assets/`)) return;
    isWhole = false;
    try {
      const reloads = Number(sessionStorage.getItem('reloads'));
      if (reloads === reloadsMax) return;
      sessionStorage.setItem('reloads', String(reloads + 1));
      setTimeout(reload, pauseMs);
    } catch {
      // Storage is blocked: nobody would count.
    }
  };
  addEventListener('error', onError, true);
  addEventListener('load', () => {
    try {
      if (isWhole) sessionStorage.removeItem('reloads');
    } catch {
      // As above.
    }
  });
})();
