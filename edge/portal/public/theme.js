// Runs before the first paint, so that the page never flashes in the wrong theme. It is a separate file because the page's
// Content-Security-Policy allows no inline scripts.
(() => {
  const apply = () => {
    try {
      const theme = localStorage.getItem('theme');
      if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
      else delete document.documentElement.dataset.theme;
    } catch {
      // Storage is blocked, so the system's theme is used.
    }
  };
  apply();
  // Another one was chosen in another tab.
  addEventListener('storage', apply);
})();

// During an upgrade, two versions of the gateway may be behind one balancer, and a file of this page may be requested from the version that
// does not have it. Then the page is reloaded, a few times; fetched files stay cached. After it has loaded, src/router/fetched.ts takes over.
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
      // Storage is blocked, so reloads could not be counted.
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
